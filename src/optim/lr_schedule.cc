#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {

LrSchedule::LrSchedule(const OptimConfig& optim, int64_t total_steps)
    : kind_(optim.schedule),
      lr_(optim.lr),
      min_lr_(optim.min_lr),
      warmup_steps_(std::min(optim.warmup_steps, total_steps)),
      decay_begin_(warmup_steps_),
      total_steps_(total_steps) {
  if (kind_ != LrScheduleKind::Wsd) return;
  const int64_t decay = optim.decay_steps > 0 ? optim.decay_steps : total_steps / 5;
  decay_begin_ = std::max(warmup_steps_, total_steps - decay);
}

// The ends are exact: the power of 1 may be off by a rounding.
double LrSchedule::range_at(int64_t step) const {
  if (step >= total_steps_) return lr_;
  return min_lr_ * std::pow(lr_ / min_lr_, double(step - 1) / double(total_steps_ - 1));
}

double LrSchedule::at(int64_t step) const {
  if (kind_ == LrScheduleKind::Range) return range_at(step);
  if (step <= warmup_steps_) return lr_ * double(step) / double(warmup_steps_);
  if (kind_ == LrScheduleKind::Constant || step <= decay_begin_) return lr_;
  const double length = double(std::max<int64_t>(1, total_steps_ - decay_begin_));
  const double progress = std::min(1.0, double(step - decay_begin_) / length);
  const double remaining = kind_ == LrScheduleKind::Cosine
                               ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                               : 1.0 - progress;
  return min_lr_ + (lr_ - min_lr_) * remaining;
}

}  // namespace trireme
