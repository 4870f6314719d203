#pragma once

#include <span>

#include "base/result.h"
#include "reproduce/published_run.h"
#include "reproduce/reproduction.h"
#include "schema/hardware.h"

namespace trireme {

// Plans a published run and predicts its step as `trireme plan --cluster` does, but without a
// limit of memory: the run did fit. Returns the times of the slowest rank.
Result<StepTimes> price_run(const PublishedRun& run, const Hardware& hardware);

// Prices published runs of one cluster with both baselines, and fills in `table` and
// `constant_flops`.
Status price_runs(std::span<const PublishedRun> runs, const Hardware& hardware,
                  Reproduction& reproduction);

}  // namespace trireme
