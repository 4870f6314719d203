#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/sample_range.h"
#include "optim/loss_scale.h"

namespace trireme {

// A validation loss in nats per token, and the step after which it was measured.
struct Validation {
  int64_t step = -1;  // -1: none yet
  double loss = 0.0;
  bool is_known() const { return step >= 0; }
};

// The position of a run between two steps. A checkpoint holds it beside the parameters and the
// optimizer state.
struct TrainPosition {
  int64_t step = 0;          // steps done
  uint64_t next_sample = 0;  // global number of the next step's first sample
  int64_t tokens_seen = 0;
  int64_t num_updates = 0;
  int64_t skipped_steps = 0;
  LossScale::State loss_scale = {.scale = 0.0};  // 0: the configured scale
  Validation last_validation, best_validation;
  int64_t validations_since_best = 0;
  // The last step in which a replay on another rank has found nothing (corruption_checks.h).
  std::optional<int64_t> clean_step = std::nullopt;
  // Samples on which the run does not train, both before and after next_sample
  // (left_out_samples.h).
  std::vector<SampleRange> left_out = {};
};

}  // namespace trireme
