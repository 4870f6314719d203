#pragma once

#include <cstdint>

namespace trireme {

// What the gradients of a loss are multiplied with in fp16, so that small ones do not vanish:
// halved after a step whose gradients were not finite, and was skipped, doubled after a number of
// good ones in a row. Powers of two, so that it changes no other bit. All ranks see the same steps
// and so have the same scale.
class LossScale {
 public:
  // What a checkpoint must hold.
  struct State {
    double scale = 1.0;
    int64_t good_steps = 0;  // since it was changed
  };

  LossScale() = default;  // 1 for good
  // scale: a power of two. window: good steps before it is doubled.
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
