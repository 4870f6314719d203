#pragma once

#include <cstdint>

namespace trireme {

// The factor of the loss in fp16, which keeps small gradients from vanishing. It is halved after a
// step whose gradients were not finite (that step is skipped) and doubled after a number of good
// steps in a row. It is a power of two, so it changes no other bit. All ranks see the same steps
// and so have the same scale.
class LossScale {
 public:
  // The part that a checkpoint must hold.
  struct State {
    double scale = 1.0;
    int64_t good_steps = 0;  // since the scale was changed
  };

  LossScale() = default;  // always 1
  // `scale` must be a power of two. `window` is the number of good steps before it is doubled.
  LossScale(double scale, int64_t window) : state_{scale, 0}, window_(window) {}

  bool is_dynamic() const { return window_ > 0; }
  double value() const { return state_.scale; }
  void take_step(bool skipped);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  State state_;
  int64_t window_ = 0;
};

}  // namespace trireme
