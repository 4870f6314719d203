#pragma once

#include <cstdint>

namespace trireme {

struct ActivationShape {
  int64_t rows;
  int64_t cols;
};

// 1, odd, around the vector's width, one tile and several.
inline constexpr ActivationShape kActivationShapes[] = {{1, 1},  {3, 7},   {5, 15},   {4, 16},
                                                        {2, 17}, {33, 65}, {40, 1027}};
inline constexpr ActivationShape kActivationBenchShape = {4096, 3072};  // GPT-2 small's MLP

}  // namespace trireme
