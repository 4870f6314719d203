#pragma once

namespace trireme {

// Bounds of a time that is expensive to compute: it is at least `lower` and at most `upper`.
struct SecondsBounds {
  double lower = 0.0, upper = 0.0;
};

}  // namespace trireme
