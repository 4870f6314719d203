#include "kernels/matmul/matmul.h"
#include "kernels/ref_access.h"

namespace trireme {
namespace {

double product(const MatmulArgs& args, int64_t row, int64_t col) {
  const bool a_transposed = args.form == MatmulForm::TN;
  const bool b_transposed = args.form == MatmulForm::NT;
  double sum = 0.0;
  for (int64_t k = 0; k < inner_extent(args); ++k) {
    const double a = a_transposed ? read(args.a, k, row) : read(args.a, row, k);
    const double b = b_transposed ? read(args.b, col, k) : read(args.b, k, col);
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
      if (args.bias_N) value += read(bias, 0, col);
      if (args.residual_MN) value += read(args.residual_MN, row, col);
      if (args.write == Write::Accumulate) value += read(args.c, row, col);
      write(args.c, row, col, value);
    }
  }
}

void column_sum_ref(Stream&, const ColumnSumArgs& args) {
  check_column_sum(args);
  for (int64_t col = 0; col < args.dy_TN.cols; ++col) {
    double sum = args.write == Write::Accumulate ? read(args.sum_N, col) : 0.0;
    for (int64_t row = 0; row < args.dy_TN.rows; ++row) sum += read(args.dy_TN, row, col);
    write(args.sum_N, col, sum);
  }
}

}  // namespace trireme
