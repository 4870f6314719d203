#include <string>

#include "kernels/argument_checks.h"
#include "kernels/matmul/matmul.h"

namespace trireme {
namespace {

std::string text_of(const char* name, const MatrixRef& x) {
  return std::string(name) + " [" + std::to_string(x.rows) + ", " + std::to_string(x.cols) + "]";
}

void check_extents(const char* name, const MatrixRef& x, int64_t rows, int64_t cols) {
  TRIREME_CHECK(
      x.rows == rows && x.cols == cols && x.stride >= cols,
      text_of(name, x) + " should be [" + std::to_string(rows) + ", " + std::to_string(cols) + "]");
}

bool is_float_matrix(const MatrixRef& x) { return is_compute_dtype(x.dtype); }

}  // namespace

void check_matmul(const MatmulArgs& args) {
  const auto& [form, a, b, c, bias_N, residual_MN, write] = args;
  const int64_t k = inner_extent(args);
  const bool a_transposed = form == MatmulForm::TN;
  const bool b_transposed = form == MatmulForm::NT;
  check_extents("a", a, a_transposed ? k : c.rows, a_transposed ? c.rows : k);
  check_extents("b", b, b_transposed ? c.cols : k, b_transposed ? k : c.cols);
  TRIREME_CHECK(is_float_matrix(a) && b.dtype == a.dtype,
                "a and b have one dtype: fp32, bf16 or fp16");
  TRIREME_CHECK(is_float_matrix(c), "c is fp32, bf16 or fp16");
  TRIREME_CHECK(form != MatmulForm::TN || c.dtype != DType::F16, "a TN product is fp32 or bf16");
  if (bias_N) {
    TRIREME_CHECK(bias_N.num_elements() == c.cols && bias_N.dtype == a.dtype,
                  "bias has one element of a's dtype for every column of c");
  }
  if (residual_MN) {
    check_extents("residual", residual_MN, c.rows, c.cols);
    TRIREME_CHECK(residual_MN.dtype == c.dtype, "the residual has c's dtype");
  }
  if (write == Write::Accumulate) {
    TRIREME_CHECK(!bias_N && !residual_MN, "only a plain product accumulates");
  }
}

void check_column_sum(const ColumnSumArgs& args) {
  TRIREME_CHECK(is_float_matrix(args.dy_TN), "dy is fp32, bf16 or fp16");
  check_state("sum", args.sum_N, args.dy_TN.cols);
}

}  // namespace trireme
