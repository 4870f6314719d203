#pragma once

#include <string>
#include <vector>

#include "comm/collective_check.h"
#include "comm/world.h"

namespace trireme {

struct CollectiveSample {
  double seconds_median = 0;
  double seconds_best = 0;
  bool correct = true;
  std::string wrong;
};

// Runs a collective on all ranks of the world, verifies its result and times it. `visible`: peers
// may access its buffers. All ranks call it.
CollectiveSample measure_collective(World& world, const CollectiveCase& c, bool visible);

}  // namespace trireme
