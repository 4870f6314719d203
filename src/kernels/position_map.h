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
};

}  // namespace trireme
