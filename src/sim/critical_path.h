#pragma once

#include <vector>

#include "sim/simulate.h"

namespace trireme {

struct CriticalStep {
  int rank = 0;
  size_t index = 0;       // action in the rank's program
  double transfer_s = 0;  // between the step before and this one
};

// The chain of actions and transfers, in order of time, without whose shortening the step cannot
// end earlier: their durations and transfers add up to the makespan.
std::vector<CriticalStep> critical_path(const Schedule& schedule, const Simulation& simulation);

}  // namespace trireme
