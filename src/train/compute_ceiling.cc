#include "train/compute_ceiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

constexpr int kMostMeasured = 3;

}  // namespace

// Perhaps others used the cores while the ceiling was measured. A step is slower than the true
// ceiling, so this is measured again, a few times at most.
std::string ComputeCeiling::see(int64_t step, double flops_per_s) {
  if (flops_per_s_ <= 0.0 || flops_per_s <= flops_per_s_) return "";
  const double before = std::exchange(flops_per_s_, flops_per_s);
  if (measure_ && num_measured_ < kMostMeasured) {
    ++num_measured_;
    flops_per_s_ = std::max(flops_per_s, measure_());
  }
  if (raised_) return "";
  raised_ = {.step = step, .before = before};
  const bool is_step = flops_per_s_ == flops_per_s;
  return fmt::format(
      "step {} computed {:.1f} GFLOP/s, more than the ceiling of {:.1f} GFLOP/s that was "
      "measured at the start, perhaps while others used the cores. The ceiling was raised to "
      "{:.1f} GFLOP/s, {}; MFU is computed with it from now on",
      step, flops_per_s * 1e-9, before * 1e-9, flops_per_s_ * 1e-9,
      is_step ? "the rate of this step" : "which was measured now");
}

double ComputeCeiling::mfu(double flops_per_s) const {
  return flops_per_s_ > 0.0 ? flops_per_s / flops_per_s_ : 0.0;
}

}  // namespace trireme
