#pragma once

#include <vector>

namespace trireme {

// When one action ran, in seconds from the start of the step.
struct Span {
  double start_s = 0;
  double end_s = 0;

  double duration_s() const { return end_s - start_s; }
};

// The spans of a schedule's programs, simulated or measured: [rank][action].
using Timeline = std::vector<std::vector<Span>>;

}  // namespace trireme
