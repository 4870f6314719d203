#pragma once

#include <cmath>

namespace trireme {

// In double, as reference kernels compute.
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace trireme
