#pragma once

#include "device/stream.h"
#include "kernels/simd.h"

namespace trireme::TRIREME_ISA {

// Elements that a thread takes at a time: some microseconds of work, so that smaller calls wake no
// other thread.
inline constexpr int64_t kTileElements = 16384;

// Calls body(begin, end, thread) for tiles of [0, n), each of `grain` except the last.
template <typename Body>
TRIREME_INLINE void for_each_tile(Stream& stream, int64_t n, int64_t grain, Body&& body) {
  stream.team().parallel_for((n + grain - 1) / grain, [&](int64_t tile, int thread) {
    const int64_t begin = tile * grain;
    body(begin, begin + grain < n ? begin + grain : n, thread);
  });
}

// Does the same for the rows of a matrix.
template <typename Body>
TRIREME_INLINE void for_each_row_tile(Stream& stream, int64_t rows, int64_t cols, Body&& body) {
  for_each_tile(stream, rows, cols < kTileElements ? kTileElements / (cols < 1 ? 1 : cols) : 1,
                body);
}

}  // namespace trireme::TRIREME_ISA
