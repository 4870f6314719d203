#pragma once

#include <cstdint>

namespace trireme {

struct ScaleShape {
  int64_t rows;
  int64_t cols;
};

// No row, 1, odd, around the vector's width, several tiles, more than one chunk of rows, and more
// than one block of columns.
inline constexpr ScaleShape kScaleShapes[] = {{0, 5},     {1, 1},    {3, 7},   {5, 15},
                                              {4, 16},    {2, 17},   {33, 65}, {40, 1027},
                                              {1100, 48}, {34, 8209}};
// Rows of training runs: GPT-2 small and a wide one.
inline constexpr ScaleShape kScaleBenchShapes[] = {{4096, 768}, {2048, 4096}};

}  // namespace trireme
