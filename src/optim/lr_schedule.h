#pragma once

#include "schema/run_config.h"

namespace trireme {

// The learning rate of steps 1 .. total_steps: linear warm-up to lr, then cosine, linear, constant
// or wsd (constant, then linear over the last decay_steps) down to min_lr. The range of a
// learning-rate range test instead rises from min_lr at step 1 to lr at the last step, by the same
// factor every step.
class LrSchedule {
 public:
  LrSchedule(const OptimConfig& optim, int64_t total_steps);
  double at(int64_t step) const;

 private:
  double range_at(int64_t step) const;

  LrScheduleKind kind_ = LrScheduleKind::Constant;
  double lr_ = 0.0;
  double min_lr_ = 0.0;
  int64_t warmup_steps_ = 0;
  int64_t decay_begin_ = 0;  // the last step at the full rate
  int64_t total_steps_ = 0;
};

}  // namespace trireme
