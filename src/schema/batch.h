#pragma once

#include <cstdint>

#include "schema/run_config.h"

namespace trireme {

// Sequences of a step over all ranks, from whichever of its keys sets them. 0 if they contradict
// each other or are out of range.
int64_t sequences_of_step(const RunConfig& config);

// Micro-batches of a pipeline and step: gradient accumulation. 0 if they do not come out even.
int64_t microbatches_of_step(const RunConfig& config);

}  // namespace trireme
