#pragma once

#include <cstdint>

namespace trireme {

struct MoeShape {
  int64_t tokens;
  int64_t sequences;
  int64_t experts;
  int64_t top_k;
  int64_t groups;
  int64_t top_groups;
  int64_t capacity;
  int64_t d_model;
  int64_t d_ff;
  int64_t rows() const {
    const int64_t taken = experts * capacity;
    return tokens * top_k < taken ? tokens * top_k : taken;
  }
};

// Sizes of one; few and many experts; groups; experts that overflow; widths that are no multiple of
// a vector.
inline constexpr MoeShape kMoeShapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1},      {6, 2, 4, 2, 1, 1, 6, 7, 5},
    {40, 4, 8, 2, 4, 2, 40, 17, 33},  {40, 4, 8, 2, 1, 1, 7, 16, 16},
    {33, 3, 65, 6, 13, 4, 2, 65, 15}, {300, 1, 3, 3, 1, 1, 90, 130, 20}};
inline constexpr MoeShape kMoeBenchShape = {1024, 4, 8, 2, 1, 1, 1024, 512, 1792};

}  // namespace trireme
