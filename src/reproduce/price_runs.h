#pragma once

#include <initializer_list>
#include <span>

#include "base/result.h"
#include "reproduce/published_run.h"
#include "reproduce/reproduction.h"
#include "schema/hardware.h"

namespace trireme {

// Plans a published run and predicts its step as `trireme plan --cluster` does, but without a
// limit of memory: the run did fit. Returns the times of the slowest rank.
Result<StepTimes> price_run(const PublishedRun& run, const Hardware& hardware);

// Runs of one cluster.
struct RunsOfCluster {
  std::span<const PublishedRun> runs;
  const Hardware& hardware;
};

// Prices published runs with both baselines, and fills in `table` and `constant_flops`.
Status price_runs(std::initializer_list<RunsOfCluster> clusters, Reproduction& reproduction);

}  // namespace trireme
