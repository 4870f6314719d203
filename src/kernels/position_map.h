#pragma once

#include <cstdint>

namespace trireme {

// The position in its sequence of what has an index here: tokens of two places may lie together.
struct PositionMap {
  int64_t offset = 0;
  int64_t gap_at = int64_t{1} << 62;  // from this index on, positions are `gap` further
  int64_t gap = 0;

  constexpr int64_t of(int64_t index) const { return index + offset + (index >= gap_at ? gap : 0); }
};

}  // namespace trireme
