#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "memory/chunk_tables.h"

namespace trireme {

// The places of the tensors that Muon needs to update one matrix. They are bytes from the start of
// a region, which all matrices of a rank use one after the other. The dtype is that of the
// products: bf16 if the model computes in bf16, else fp32.
struct NewtonSchulzMemory {
  DType dtype = DType::F32;  // of all tensors but the partial sums
  int64_t side = 0;          // of the smaller one of x x^T and x^T x: min(rows, cols)
  // Before the iterations, x holds this rank's part of the update, and then next the parts of all
  // tp ranks.
  int64_t x = 0;         // [rows, cols]
  int64_t next = 0;      // [rows, cols]
  int64_t gram = 0;      // [side, side]
  int64_t square = 0;    // [side, side]
  int64_t partials = 0;  // fp64: partial sums of the squared norm
  int64_t bytes = 0;     // of all tensors together
};
// `compute` is the dtype in which the model computes.
NewtonSchulzMemory newton_schulz_memory(const WholeMatrix& matrix, DType compute);

// Returns the bytes that the region needs for the matrices of this chunk, or 0 if the rank owns no
// matrix that Muon updates.
int64_t newton_schulz_bytes(const ChunkTables& chunk);

// `count` matrix products [m, k] x [k, n].
struct ProductExtents {
  int64_t m = 0, n = 0, k = 0, count = 1;
};
// Returns the matrix products of all iterations on a matrix [rows, cols].
std::vector<ProductExtents> newton_schulz_products(int64_t rows, int64_t cols);

}  // namespace trireme
