#include "optim/loss_scale.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr double kLeast = 0x1p-24, kMost = 0x1p24;

}  // namespace

void LossScale::take_step(bool skipped) {
  if (!is_dynamic()) return;
  if (skipped) {
    state_ = {std::max(kLeast, state_.scale / 2.0), 0};
  } else if (++state_.good_steps >= window_) {
    state_ = {std::min(kMost, state_.scale * 2.0), 0};
  }
}

}  // namespace trireme
