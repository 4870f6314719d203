#pragma once

#include <cstdint>

namespace trireme {

struct RopeShape {
  int64_t rows;
  int64_t seq_len;
  int64_t num_heads;
  int64_t head_dim;
};

inline constexpr RopeShape kRopeShapes[] = {{1, 1, 1, 2},      {6, 3, 2, 4},  {5, 5, 3, 6},
                                            {8, 4, 2, 32},     {7, 7, 1, 34}, {12, 6, 3, 64},
                                            {300, 100, 2, 128}};
inline constexpr RopeShape kRopeBenchShape = {4096, 1024, 12, 64};

}  // namespace trireme
