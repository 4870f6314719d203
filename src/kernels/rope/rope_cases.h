#pragma once

#include <cstdint>

namespace trireme {

struct RopeShape {
  int64_t rows;
  int64_t seq_len;
  int64_t num_heads;
  int64_t head_dim;
  int64_t first_position;
};

inline constexpr RopeShape kRopeShapes[] = {
    {1, 1, 1, 2, 0},  {6, 3, 2, 4, 0},   {5, 5, 3, 6, 2},      {8, 4, 2, 32, 1},
    {7, 7, 1, 34, 0}, {12, 6, 3, 64, 0}, {300, 100, 2, 128, 3}};
inline constexpr RopeShape kRopeBenchShape = {4096, 1024, 12, 64, 0};

}  // namespace trireme
