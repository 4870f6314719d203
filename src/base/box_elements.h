#pragma once

#include <cstdint>

namespace trireme {

// The elements of a box of a matrix, counted row by row: where they stand in the whole matrix. A
// vector has one column.
struct BoxElements {
  int64_t origin = 0;  // of the box's first element, counted in the whole matrix
  int64_t cols = 1;    // of the box
  int64_t whole_cols = 1;

  constexpr int64_t in_whole(int64_t element) const {
    return cols == whole_cols ? origin + element
                              : origin + element / cols * whole_cols + element % cols;
  }
  // Returns how many of the next `most` elements, beginning with this one, are neighbours in the
  // whole matrix, too.
  constexpr int64_t run(int64_t element, int64_t most) const {
    if (cols == whole_cols) return most;
    const int64_t of_row = cols - element % cols;
    return of_row < most ? of_row : most;
  }
};

}  // namespace trireme
