#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme {

// The rows of pixels that an image window meets: `size` rows, which move by `stride` rows over the
// image and over `padding` rows around it (ImageWindow).
struct RowWindow {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t padding = 0;

  // Returns the positions of the window along `extent` rows; not positive: it does not fit.
  constexpr int64_t positions(int64_t extent) const {
    return (extent + 2 * padding - size) / stride + 1;
  }
  // True if every row that is made reads one row, its own.
  constexpr bool reads_own_row() const { return size == 1 && stride == 1 && padding == 0; }
  friend bool operator==(const RowWindow&, const RowWindow&) = default;
};

// Neighbouring indices of a dim: [begin, end).
struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr int64_t count() const { return end - begin; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// Returns what two ranges share; it may be empty.
constexpr IndexRange shared_by(const IndexRange& a, const IndexRange& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Returns the rows of an image of `extent` rows that the window reads for the rows `made`.
constexpr IndexRange rows_read(const RowWindow& window, int64_t extent, const IndexRange& made) {
  if (made.count() == 0) return {};
  return shared_by({0, extent}, {made.begin * window.stride - window.padding,
                                 (made.end - 1) * window.stride - window.padding + window.size});
}

}  // namespace trireme
