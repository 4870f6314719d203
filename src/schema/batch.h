#pragma once

#include <cstdint>

#include "schema/run_config.h"

namespace trireme {

// Sequences of a step over all ranks, from whichever of its keys sets them. 0 if they contradict
// each other or are out of range.
int64_t sequences_of_step(const RunConfig& config);

// Micro-batches of a pipeline and step: gradient accumulation. 0 if they do not come out even. It
// is one where batch norms take their statistics over the step: then a rank computes at once all
// sequences that it has in a step, its leaves of batch.micro_sequences sequences each.
int64_t microbatches_of_step(const RunConfig& config);

// Sequences that a rank computes at once.
int64_t sequences_of_microbatch(const RunConfig& config);
// Leaves of a micro-batch whose gradients are summed along a tree of their own
// (StageShape::leaves).
int64_t leaves_of_microbatch(const RunConfig& config);

}  // namespace trireme
