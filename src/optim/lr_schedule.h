#pragma once

#include "schema/run_config.h"

namespace trireme {

// The learning rate of steps 1 .. total_steps: linear warm-up to lr, then cosine, linear, constant
// or wsd (constant, then linear over the last decay_steps) down to min_lr.
class LrSchedule {
 public:
  LrSchedule(const OptimConfig& optim, int64_t total_steps);
  double at(int64_t step) const;

 private:
  LrScheduleKind kind_ = LrScheduleKind::Constant;
  double lr_ = 0.0;
  double min_lr_ = 0.0;
  int64_t warmup_steps_ = 0;
  int64_t decay_begin_ = 0;  // the last step at the full rate
  int64_t total_steps_ = 0;
};

}  // namespace trireme
