#pragma once

#include <cstdint>

namespace trireme {

// Maps an index in this buffer to a position in the sequence. The buffer may hold tokens of two
// separate places.
struct PositionMap {
  int64_t offset = 0;
  int64_t gap_at = int64_t{1} << 62;  // positions of this and later indices are `gap` larger
  int64_t gap = 0;

  constexpr int64_t of(int64_t index) const { return index + offset + (index >= gap_at ? gap : 0); }
  // The first index whose position is not before this one; negative if all positions lie behind it.
  constexpr int64_t first_from(int64_t position) const {
    const int64_t index = position - offset;
    if (index < gap_at) return index;
    return index - gap < gap_at ? gap_at : index - gap;
  }
};

}  // namespace trireme
