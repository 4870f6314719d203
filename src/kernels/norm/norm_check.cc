#include "kernels/argument_checks.h"
#include "kernels/norm/norm.h"

namespace trireme {
namespace {

// The parameters of a row in fp32 must fit into the workspace of one thread.
void check_width(int64_t cols) {
  check_argument(2 * cols * size_of(DType::F32) <= kWorkspaceBytesPerThread,
                 "a normalized row has at most 524288 columns");
}

void check_statistics(NormKind kind, const TensorRef& mean_T, const TensorRef& rstd_T,
                      int64_t rows) {
  if (kind == NormKind::Layer) check_tensor("mean", mean_T, rows, DType::F32);
  check_tensor("rstd", rstd_T, rows, DType::F32);
}

}  // namespace

void check_norm_forward(const NormForwardArgs& args) {
  const MatrixRef& x_TC = args.x_TC;
  check_float("x", x_TC);
  check_width(x_TC.cols);
  check_if_present("gain", args.gain_C, x_TC.cols, x_TC.dtype);
  check_if_present("bias", args.bias_C, x_TC.cols, x_TC.dtype);
  check_argument(args.kind == NormKind::Layer || !args.bias_C, "an RMS norm has no bias");
  check_matrix("y", args.y_TC, x_TC.rows, x_TC.cols, x_TC.dtype);
  check_statistics(args.kind, args.mean_T, args.rstd_T, x_TC.rows);
}

void check_norm_backward_input(const NormBackwardInputArgs& args) {
  const MatrixRef& x_TC = args.x_TC;
  check_float("x", x_TC);
  check_matrix("dy", args.dy_TC, x_TC.rows, x_TC.cols, x_TC.dtype);
  check_width(x_TC.cols);
  check_if_present("gain", args.gain_C, x_TC.cols, x_TC.dtype);
  check_statistics(args.kind, args.mean_T, args.rstd_T, x_TC.rows);
  check_if_present("dresidual", args.dresidual_TC, x_TC.rows, x_TC.cols, x_TC.dtype);
  check_matrix("dx", args.dx_TC, x_TC.rows, x_TC.cols, x_TC.dtype);
}

void check_norm_backward_weight(const NormBackwardWeightArgs& args) {
  const MatrixRef& x_TC = args.x_TC;
  check_float("x", x_TC);
  check_matrix("dy", args.dy_TC, x_TC.rows, x_TC.cols, x_TC.dtype);
  check_statistics(args.kind, args.mean_T, args.rstd_T, x_TC.rows);
  check_argument(args.dgain_C || args.dbias_C, "a gain or a bias has a gradient");
  if (args.dgain_C) check_state("dgain", args.dgain_C, x_TC.cols);
  if (args.dbias_C) check_state("dbias", args.dbias_C, x_TC.cols);
}

}  // namespace trireme
