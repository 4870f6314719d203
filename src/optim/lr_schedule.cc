#include "optim/lr_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/nearest_name.h"

namespace trireme {

Result<LrSchedule> LrSchedule::make(const OptimConfig& optim, int64_t total_steps) {
  LrSchedule schedule;
  schedule.lr_ = optim.lr;
  schedule.min_lr_ = optim.min_lr;
  schedule.total_steps_ = total_steps;
  schedule.warmup_steps_ = std::min(optim.warmup_steps, total_steps);
  schedule.decay_begin_ = schedule.warmup_steps_;
  if (optim.schedule == "cosine") {
    schedule.kind_ = Kind::Cosine;
  } else if (optim.schedule == "linear") {
    schedule.kind_ = Kind::Linear;
  } else if (optim.schedule == "constant") {
    schedule.kind_ = Kind::Constant;
  } else if (optim.schedule == "wsd") {
    schedule.kind_ = Kind::Wsd;
    const int64_t decay = optim.decay_steps > 0 ? optim.decay_steps : total_steps / 5;
    schedule.decay_begin_ = std::max(schedule.warmup_steps_, total_steps - decay);
  } else {
    const std::string nearest =
        nearest_name(optim.schedule, {"cosine", "linear", "constant", "wsd"});
    return Error{
        ErrorKind::Usage,
        fmt::format("optim.schedule = \"{}\" is unknown; use cosine, linear, constant or "
                    "wsd{}",
                    optim.schedule, nearest.empty() ? "" : " (did you mean " + nearest + "?)")};
  }
  return schedule;
}

double LrSchedule::at(int64_t step) const {
  if (step <= warmup_steps_) return lr_ * double(step) / double(warmup_steps_);
  if (kind_ == Kind::Constant || step <= decay_begin_) return lr_;
  const double length = double(std::max<int64_t>(1, total_steps_ - decay_begin_));
  const double progress = std::min(1.0, double(step - decay_begin_) / length);
  const double remaining =
      kind_ == Kind::Cosine ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress)) : 1.0 - progress;
  return min_lr_ + (lr_ - min_lr_) * remaining;
}

}  // namespace trireme
