#include "kernels/argument_checks.h"
#include "kernels/batch_norm/batch_norm.h"

namespace trireme {
namespace {

void check_blocks(const TensorRef& sums_B2C, const MatrixRef& x_RC, int64_t block_rows) {
  check_argument(block_rows > 0 && x_RC.rows % block_rows == 0,
                 "blocks of a batch norm have equal heights");
  check_tensor("sums of blocks", sums_B2C, x_RC.rows / block_rows * 2 * x_RC.cols, DType::F32);
}

// Returns C, the number of channels.
int64_t check_joined(const TensorRef& sums_B2C) {
  check_argument(sums_B2C.shape.rank() == 3 && sums_B2C.shape[0] > 0 && sums_B2C.shape[1] == 2,
                 "sums of blocks are [blocks, 2, channels], with one block or more");
  check_tensor("sums of blocks", sums_B2C, sums_B2C.num_elements(), DType::F32);
  return sums_B2C.shape[2];
}

void check_statistics(const TensorRef& mean_C, const TensorRef& rstd_C, int64_t cols) {
  check_tensor("mean", mean_C, cols, DType::F32);
  check_tensor("rstd", rstd_C, cols, DType::F32);
}

}  // namespace

void check_batch_norm_moments(const BatchNormMomentsArgs& args) {
  check_float("x", args.x_RC);
  check_blocks(args.moments_B2C, args.x_RC, args.block_rows);
}

void check_batch_norm_statistics(const BatchNormStatisticsArgs& args) {
  const int64_t cols = check_joined(args.moments_B2C);
  const bool has_rows = args.block_rows > 0 && (args.taller_blocks == 0 || args.taller_rows > 0);
  check_argument(has_rows, "a block of a batch norm has rows");
  check_argument(args.taller_blocks >= 0 && args.taller_blocks <= args.moments_B2C.shape[0],
                 "the taller blocks of a batch norm are some of its blocks");
  check_statistics(args.mean_C, args.rstd_C, cols);
  check_if_present("sum of means", args.mean_sum_C, cols, DType::F32);
  check_if_present("sum of variances", args.variance_sum_C, cols, DType::F32);
}

void check_batch_norm_forward(const BatchNormForwardArgs& args) {
  const MatrixRef& x_RC = args.x_RC;
  check_float("x", x_RC);
  check_statistics(args.mean_C, args.rstd_C, x_RC.cols);
  check_tensor("gain", args.gain_C, x_RC.cols, x_RC.dtype);
  check_tensor("bias", args.bias_C, x_RC.cols, x_RC.dtype);
  check_matrix("y", args.y_RC, x_RC.rows, x_RC.cols, x_RC.dtype);
}

void check_batch_norm_backward_sums(const BatchNormBackwardSumsArgs& args) {
  const MatrixRef& x_RC = args.x_RC;
  check_float("x", x_RC);
  check_matrix("dy", args.dy_RC, x_RC.rows, x_RC.cols, x_RC.dtype);
  check_statistics(args.mean_C, args.rstd_C, x_RC.cols);
  check_blocks(args.sums_B2C, x_RC, args.block_rows);
}

void check_batch_norm_backward_weight(const BatchNormBackwardWeightArgs& args) {
  const int64_t cols = check_joined(args.sums_B2C);
  check_tensor("total", args.total_2C, 2 * cols, DType::F32);
  if (args.dgain_C) check_state("dgain", args.dgain_C, cols);
  if (args.dbias_C) check_state("dbias", args.dbias_C, cols);
}

void check_batch_norm_backward_input(const BatchNormBackwardInputArgs& args) {
  const MatrixRef& x_RC = args.x_RC;
  check_float("x", x_RC);
  check_matrix("dy", args.dy_RC, x_RC.rows, x_RC.cols, x_RC.dtype);
  check_statistics(args.mean_C, args.rstd_C, x_RC.cols);
  check_tensor("gain", args.gain_C, x_RC.cols, x_RC.dtype);
  check_tensor("total", args.total_2C, 2 * x_RC.cols, DType::F32);
  check_argument(args.total_rows >= x_RC.rows, "statistics are of at least the rows of x");
  check_matrix("dx", args.dx_RC, x_RC.rows, x_RC.cols, x_RC.dtype);
}

}  // namespace trireme
