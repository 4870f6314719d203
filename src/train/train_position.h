#pragma once

#include <cstdint>

#include "optim/loss_scale.h"

namespace trireme {

// The position of a run between two steps. A checkpoint holds it beside the parameters and the
// optimizer state.
struct TrainPosition {
  int64_t step = 0;          // steps done
  uint64_t next_sample = 0;  // global number of the next step's first sample
  int64_t tokens_seen = 0;
  int64_t num_updates = 0;
  int64_t skipped_steps = 0;
  LossScale::State loss_scale = {.scale = 0.0};  // 0: the configured scale
};

}  // namespace trireme
