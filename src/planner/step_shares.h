#pragma once

#include <span>

#include "predict/predict.h"

namespace trireme {

// Where the ranks of a run spend a step, predicted or measured: means over ranks, in seconds.
struct StepShares {
  double step_s = 0.0;                                     // of the slowest rank
  double idle_s = 0.0;                                     // waits for other stages
  std::array<double, kTrafficAxes.size()> exposed_s = {};  // waits for transfers, by axis
  double median_compute_s = 0.0;
  double slowest_compute_s = 0.0;
  int slowest = 0;  // index of the rank that computes longest

  double exposed_of(std::string_view axis) const;
};

// `ranks` are all ranks, or as many of each stage. An empty list has no shares.
StepShares shares_of(std::span<const StepTimes> ranks);

}  // namespace trireme
