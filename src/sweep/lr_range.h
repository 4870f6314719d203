#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sweep/trial_curve.h"

namespace trireme {

// A learning-rate range test (Smith 2015): one run in which the rate rises from `from` at the first
// step to `to` at the last one, by the same factor every step.
struct LrRange {
  double from = 0.0;
  double to = 0.0;
};

// Parses "1e-6..1".
Result<LrRange> parse_lr_range(std::string_view text);

// What the curve of a range test says about the learning rate.
struct LrFinding {
  // The rate at which the smoothed loss falls fastest over the logarithm of the rate.
  std::optional<double> steepest_lr;
  // The rate from which on the smoothed loss has lost half of what it had gained, or at which it is
  // not finite. Absent: it has not diverged.
  std::optional<double> diverged_lr;
  int64_t diverged_step = 0;  // 0: it has not diverged

  // The smaller one of steepest_lr and a tenth of diverged_lr: a rate that is too low costs some
  // steps, one that is too high the run.
  std::optional<double> suggested_lr() const;
};

// `total_steps` are those of the whole test: a twentieth of them is the window of the smoothed
// loss. The window lies around its step, not before it, so that smoothing moves no rate upwards.
LrFinding find_lr(const TrialCurve& curve, int64_t total_steps);

// The mean loss of the window around every step. At the ends the window is shorter on both sides.
// It ends before the first loss that is not finite.
std::vector<double> smoothed_losses(const TrialCurve& curve, int64_t total_steps);

}  // namespace trireme
