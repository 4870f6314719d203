#pragma once

#include <cstdint>

namespace trireme {

struct DropoutShape {
  int64_t rows;
  int64_t cols;
  int64_t rows_per_sample;
};

// Row lengths with every remainder modulo 4 (words of a counter), samples of one row and of
// several.
inline constexpr DropoutShape kDropoutShapes[] = {{1, 1, 1},   {6, 7, 3},    {5, 16, 2},
                                                  {4, 66, 2},  {9, 61, 4},   {2, 128, 2},
                                                  {7, 129, 7}, {60, 515, 20}};
inline constexpr DropoutShape kDropoutBenchShape = {4096, 768, 1024};

}  // namespace trireme
