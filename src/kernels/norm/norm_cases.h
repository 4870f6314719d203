#pragma once

#include <cstdint>

namespace trireme {

struct NormShape {
  int64_t rows;
  int64_t cols;
};

// 1, odd sizes, sizes around the vector width and its fourfold unrolling, more than one chunk of
// rows.
inline constexpr NormShape kNormShapes[] = {{1, 1},   {3, 7},   {5, 16},   {2, 63},   {4, 64},
                                            {33, 65}, {7, 100}, {70, 513}, {1100, 48}};
// Shapes of training runs: GPT-2 small and a wide model.
inline constexpr NormShape kNormBenchShapes[] = {{4096, 768}, {2048, 4096}};

}  // namespace trireme
