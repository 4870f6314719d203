#include "kernels/matmul/matmul.h"

namespace trireme {
namespace {

double element(const MatrixRef& x, int64_t row, int64_t col) {
  return x.dtype == DType::F32 ? x.row<float>(row)[col] : float(x.row<bf16>(row)[col]);
}

void store(const MatrixRef& x, int64_t row, int64_t col, double value) {
  if (x.dtype == DType::F32) {
    x.row<float>(row)[col] = float(value);
  } else {
    x.row<bf16>(row)[col] = bf16(float(value));
  }
}

double product(const MatmulArgs& args, int64_t row, int64_t col) {
  const bool a_transposed = args.form == MatmulForm::TN;
  const bool b_transposed = args.form == MatmulForm::NT;
  double sum = 0.0;
  for (int64_t k = 0; k < inner_extent(args); ++k) {
    const double a = a_transposed ? element(args.a, k, row) : element(args.a, row, k);
    const double b = b_transposed ? element(args.b, col, k) : element(args.b, k, col);
    sum += a * b;
  }
  return sum;
}

}  // namespace

void matmul_ref(Stream&, const MatmulArgs& args) {
  check_matmul(args);
  const MatrixRef bias{args.bias_N.data, args.bias_N.dtype, 1, args.c.cols, args.c.cols};
  for (int64_t row = 0; row < args.c.rows; ++row) {
    for (int64_t col = 0; col < args.c.cols; ++col) {
      double value = product(args, row, col);
      if (args.bias_N) value += element(bias, 0, col);
      if (args.residual_MN) value += element(args.residual_MN, row, col);
      if (args.write == Write::Accumulate) value += element(args.c, row, col);
      store(args.c, row, col, value);
    }
  }
}

void column_sum_ref(Stream&, const ColumnSumArgs& args) {
  check_column_sum(args);
  float* sum_N = args.sum_N.as<float>();
  for (int64_t col = 0; col < args.dy_TN.cols; ++col) {
    double sum = args.write == Write::Accumulate ? sum_N[col] : 0.0;
    for (int64_t row = 0; row < args.dy_TN.rows; ++row) sum += element(args.dy_TN, row, col);
    sum_N[col] = float(sum);
  }
}

}  // namespace trireme
