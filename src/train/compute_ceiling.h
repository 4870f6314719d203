#pragma once

#include <functional>
#include <optional>
#include <string>

#include "train/observer.h"

namespace trireme {

// The floating-point operations a second by which MFU is computed. A step that beats the ceiling
// raises it, so no MFU is above 1.
class ComputeCeiling {
 public:
  // `flops_per_s` was measured at the start; 0: unknown. `measure` measures it again; absent: the
  // rate of the step becomes the ceiling.
  ComputeCeiling(double flops_per_s, std::function<double()> measure)
      : flops_per_s_(flops_per_s), measure_(std::move(measure)) {}

  // Takes the rate of a step into account. Returns a sentence if the ceiling was raised for the
  // first time, else an empty text.
  std::string see(int64_t step, double flops_per_s);
  // MFU of a step of this rate, or 0 if the ceiling is unknown.
  double mfu(double flops_per_s) const;

  double flops_per_s() const { return flops_per_s_; }
  const std::optional<RaisedPeak>& raised() const { return raised_; }

 private:
  double flops_per_s_;
  std::function<double()> measure_;
  std::optional<RaisedPeak> raised_;
  int num_measured_ = 0;
};

}  // namespace trireme
