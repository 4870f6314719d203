#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trireme {

// The axes of kTrafficAxes (predict/predict.h), in that order.
enum TrafficAxis { kDp, kTp, kPp, kCp, kEp, kWorld, kFile, kNumTrafficAxes };
// Bytes that a rank sends, [TrafficAxis].
using AxisCounts = std::array<int64_t, kNumTrafficAxes>;

inline void add_to(AxisCounts& sum, const AxisCounts& addend, int64_t times = 1) {
  for (size_t axis = 0; axis < sum.size(); ++axis) sum[axis] += times * addend[axis];
}

}  // namespace trireme
