#pragma once

#include <cmath>

namespace trireme {

// Functions in double for reference kernels.
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace trireme
