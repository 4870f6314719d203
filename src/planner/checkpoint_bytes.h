#pragma once

#include <cstdint>

#include "compile/run_plan.h"

namespace trireme {

// The bytes of a checkpoint of the whole model: weights and state of the optimizer.
struct CheckpointBytes {
  int64_t saved = 0;  // every parameter once, however many ranks hold it
  // What all ranks together read to resume. Each reads what it owns, and what several ranks own is
  // read by each of them.
  int64_t restored = 0;
};
CheckpointBytes checkpoint_bytes(const RunPlan& plan);

}  // namespace trireme
