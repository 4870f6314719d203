#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trireme {

// What a call of an op computes: its output, the gradients of its inputs, or those of its
// parameters.
enum class OpHalf : uint8_t { Forward, InputGrad, WeightGrad };

// Seconds of an op, by OpHalf.
using OpSeconds = std::array<double, 3>;

inline double total_s(const OpSeconds& seconds) { return seconds[0] + seconds[1] + seconds[2]; }

}  // namespace trireme
