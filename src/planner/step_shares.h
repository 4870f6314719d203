#pragma once

#include <span>

#include "predict/predict.h"

namespace trireme {

// The step of one rank, predicted or measured.
struct RankStep {
  int stage = 0;  // coords.pp
  StepTimes time;
};

// One that computes longer than the median of its kind.
struct Slower {
  int index = 0;  // of the rank or of the stage
  double compute_s = 0.0;
  double median_s = 0.0;  // of the ranks of its stage, or of all stages

  double more_s() const { return compute_s - median_s; }
};

// Where the ranks of a run spend a step: means over ranks, in seconds.
struct StepShares {
  double step_s = 0.0;                                     // of the slowest rank
  double idle_s = 0.0;                                     // waits for other stages
  std::array<double, kTrafficAxes.size()> exposed_s = {};  // waits for transfers, by axis
  Slower stage;  // whose ranks compute longest, by the median of its ranks
  Slower rank;   // that is the slowest beside other ranks of its stage

  double exposed_of(std::string_view axis) const;
};

// `ranks` are all ranks, or as many of each stage. An empty list has no shares. Of an even number
// the median is the lower one of the two in the middle.
StepShares shares_of(std::span<const RankStep> ranks);

}  // namespace trireme
