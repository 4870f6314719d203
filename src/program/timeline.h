#pragma once

#include <vector>

namespace trireme {

// Start and end of an action, in seconds from the start of the step.
struct Span {
  double start_s = 0;
  double end_s = 0;

  double duration_s() const { return end_s - start_s; }
};

// Simulated or measured spans of a schedule's programs: [rank][action].
using Timeline = std::vector<std::vector<Span>>;

}  // namespace trireme
