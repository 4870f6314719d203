#pragma once

#include <cstdint>

namespace trireme {

struct BatchNormShape {
  int64_t blocks;
  int64_t block_rows;
  int64_t cols;
};

// One row, blocks of less and more than a chunk of rows, numbers of blocks that are no power of
// two, channels around the vector width and the width of a tile.
inline constexpr BatchNormShape kBatchNormShapes[] = {{1, 1, 1},   {2, 1, 7},   {3, 5, 16},
                                                      {1, 33, 3},  {7, 40, 63}, {4, 9, 65},
                                                      {6, 67, 20}, {13, 2, 130}};
// ResNet-50 at 224 x 224: behind the first convolution, and in the third group of blocks.
inline constexpr BatchNormShape kBatchNormBenchShapes[] = {{4, 112 * 112, 64}, {4, 14 * 14, 1024}};

}  // namespace trireme
