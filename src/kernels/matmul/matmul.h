#pragma once

#include "device/stream.h"
#include "kernels/inline.h"
#include "kernels/write.h"
#include "tensor/matrix.h"

namespace trireme {

// Bytes of a weight that a thread takes at a time where a product has one row, as in generation.
// A product of R rows divides this number by R (few_rows_product.h). A product in q8_0 does not.
inline constexpr int64_t kRowTileBytes = int64_t{128} << 10;

// Which operands are stored transposed. N means stored as the product reads it, T means transposed.
enum class MatmulForm {
  NT,  // c_MN = a_MK b_NK^T    forward:  y_TF = x_TC w_FC^T
  NN,  // c_MN = a_MK b_KN      dX:      dx_TC = dy_TF w_FC
  TN,  // c_MN = a_KM^T b_KN    dW:      dw_FC = dy_TF^T x_TC
};

// a and b have one dtype (fp32, bf16 or fp16). c has any of these dtypes for NT and NN, and fp32 or
// bf16 for TN. Products are summed in fp32 in an order that depends only on k, so a row of c has
// the same bits whatever the number of rows, tiles or threads. 2 M N K FLOPs. c = a b [+ bias in
// every row] [+ residual], rounded once; or c += a b, which is rounded once in bf16 and fp16.
struct MatmulArgs {
  MatmulForm form = MatmulForm::NT;
  MatrixRef a;
  MatrixRef b;
  MatrixRef c;            // written or added to, as `write` says
  TensorRef bias_N;       // absent, or of the dtype of a
  MatrixRef residual_MN;  // absent, or of the dtype of c; may be c itself
  Write write = Write::Overwrite;
};
void matmul_ref(Stream& stream, const MatmulArgs& args);  // accumulates in double

// Returns the extent over which the product sums.
inline int64_t inner_extent(const MatmulArgs& args) {
  return args.form == MatmulForm::TN ? args.a.rows : args.a.cols;
}
// Returns the arguments without Write::Accumulate where c is not fp32: what was there is a
// residual.
TRIREME_INLINE MatmulArgs rounded_once(MatmulArgs args) {
  if (args.c.dtype == DType::F32 || args.write == Write::Overwrite) return args;
  args.residual_MN = args.c;
  args.write = Write::Overwrite;
  return args;
}
// Throws ContractError if shapes or dtypes do not match; every implementation calls it first.
void check_matmul(const MatmulArgs& args);

// db_N (+)= the sum of dy_TN over its rows, in fp32 (oracle: double). The order depends only on T.
struct ColumnSumArgs {
  MatrixRef dy_TN;  // fp32, bf16 or fp16
  TensorRef sum_N;  // fp32 or bf16
  Write write = Write::Overwrite;
};
void column_sum_ref(Stream& stream, const ColumnSumArgs& args);
void check_column_sum(const ColumnSumArgs& args);

}  // namespace trireme
