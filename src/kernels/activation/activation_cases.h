#pragma once

#include <cstdint>

namespace trireme {

struct ActivationShape {
  int64_t rows;
  int64_t cols;
};

// Sizes of 1, odd sizes, sizes around the vector width, one tile and several tiles.
inline constexpr ActivationShape kActivationShapes[] = {{1, 1},  {3, 7},   {5, 15},   {4, 16},
                                                        {2, 17}, {33, 65}, {40, 1027}};
inline constexpr ActivationShape kActivationBenchShape = {4096, 3072};  // the MLP of GPT-2 small

}  // namespace trireme
