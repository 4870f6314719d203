#pragma once

#include <initializer_list>
#include <span>

#include "base/result.h"
#include "compile/run_plan.h"
#include "reproduce/published_run.h"
#include "reproduce/reproduction.h"
#include "schema/hardware.h"

namespace trireme {

// The cluster as the program of a published run executes a plan on it.
Hardware hardware_of(const PublishedRun& run, Hardware cluster);

// Plans a published run without a limit of memory: the run did fit.
Result<RunPlan> plan_run(const PublishedRun& run, const Hardware& hardware);

// Predicts the step of a plan as `trireme plan --cluster` does: the times of its slowest stage.
StepTimes slowest_stage(const RunPlan& plan, const Hardware& hardware);

// Runs of one cluster.
struct RunsOfCluster {
  std::span<const PublishedRun> runs;
  const Hardware& hardware;
};

// Prices published runs with both baselines, and fills in `table`, `memory` where it is published,
// and `constant_flops`.
Status price_runs(std::initializer_list<RunsOfCluster> clusters, Reproduction& reproduction);

}  // namespace trireme
