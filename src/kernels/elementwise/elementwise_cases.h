#pragma once

#include <cstdint>

namespace trireme {

// 1, sizes around the vector width and a Philox block, one tile and several tiles.
inline constexpr int64_t kElementCounts[] = {1, 7, 16, 17, 63, 64, 65, 1000, 16384, 50001};
inline constexpr int64_t kElementwiseBenchCount = int64_t{1} << 25;

}  // namespace trireme
