#pragma once

#include "device/stream.h"
#include "tensor/matrix.h"

namespace trireme {

// A matrix times a vector from either side, as the check of products needs it (nn/product_check.h),
// with the squared norms that its bound needs. Matrices are fp32, bf16 or fp16, vectors are fp32.
// Sums are made in fp32, in an order that depends on the extents alone.

// y_m = sum_k a_mk x_k and squares_m = sum_k a_mk^2. Adds run in 64 chains of K / 64.
struct RowDotsArgs {
  MatrixRef a_MK;
  TensorRef x_K;
  TensorRef y_M;        // written
  TensorRef squares_M;  // written
};
void row_dots_ref(Stream& stream, const RowDotsArgs& args);
void check_row_dots(const RowDotsArgs& args);  // throws ContractError

// y_k = sum_m x_m a_mk and squares_k = sum_m a_mk^2. Adds run in 32 chains of at least 32 rows.
struct RowCombinationArgs {
  MatrixRef a_MK;
  TensorRef x_M;
  TensorRef y_K;        // written
  TensorRef squares_K;  // written
};
void row_combination_ref(Stream& stream, const RowCombinationArgs& args);
void check_row_combination(const RowCombinationArgs& args);  // throws ContractError

}  // namespace trireme
