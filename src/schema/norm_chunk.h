#pragma once

#include <cstdint>

namespace trireme {

// The gradient norm is summed over chunks of this many elements, counted from the start of each
// parameter. Shard borders are multiples of it, so every layout sums the same numbers in the same
// order.
inline constexpr int64_t kNormChunk = 4096;

constexpr int64_t num_norm_chunks(int64_t num_elements) {
  return (num_elements + kNormChunk - 1) / kNormChunk;
}

}  // namespace trireme
