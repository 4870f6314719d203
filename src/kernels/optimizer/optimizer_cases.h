#pragma once

#include <cstdint>

namespace trireme {

// 1, sizes around the vector width and around kNormChunk, one tile and several tiles, and one whose
// parameters are written past the caches.
inline constexpr int64_t kParameterSizes[] = {1,    7,    16,    17,    1000,
                                              4096, 4097, 16384, 50001, (1 << 19) + 5};
inline constexpr int64_t kOptimizerBenchSize = int64_t{1} << 25;

}  // namespace trireme
