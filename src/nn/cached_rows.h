#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/matrix.h"

namespace trireme {

// Rows of a call that continue one of the sequences of a cache (generation).
struct CachedRows {
  int64_t sequence = 0;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t first_position = 0;  // of first_row in its sequence

  int64_t end_row() const { return first_row + num_rows; }
};

// Returns those of `rows` that lie in begin .. end - 1; there may be none.
inline CachedRows rows_between(const CachedRows& rows, int64_t begin, int64_t end) {
  const int64_t first = std::max(begin, rows.first_row);
  return {rows.sequence, first, std::max<int64_t>(0, std::min(end, rows.end_row()) - first),
          rows.first_position + first - rows.first_row};
}

// Returns the cached positions of the sequence of `rows`, up to and including its last row.
// cache_NX: every position of one sequence after the other.
inline MatrixRef cache_of(const CachedRows& rows, const MatrixRef& cache_NX, int64_t seq_len) {
  return rows_of(cache_NX, rows.sequence * seq_len, rows.first_position + rows.num_rows);
}

// Returns the places of `rows` in the cache.
inline MatrixRef places_of(const CachedRows& rows, const MatrixRef& cache_NX, int64_t seq_len) {
  return rows_of(cache_NX, rows.sequence * seq_len + rows.first_position, rows.num_rows);
}

// Returns the first keys of `rows`, if there is a window.
inline TensorRef first_keys_of(const CachedRows& rows, const TensorRef& first_T) {
  if (!first_T) return {};
  return {first_T.as<int32_t>() + rows.first_row, DType::I32, Shape{rows.num_rows}};
}

}  // namespace trireme
