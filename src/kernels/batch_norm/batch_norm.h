#pragma once

#include "device/stream.h"
#include "kernels/write.h"
#include "tensor/matrix.h"

namespace trireme {

// y = (x - mean) * rstd * gain + bias, where mean and rstd = 1/sqrt(variance + eps) are those of a
// channel (column) over all rows. Rows are cut into B blocks of equal height, such as the pixels of
// one image. Every block is summed on its own, and the blocks are joined by a binary tree over
// their numbers. So ranks that have some of the blocks each, and gather the sums of all, get the
// bits of one rank that has them all. Sums are fp32; x, y, gain and bias have one dtype (fp32, bf16
// or fp16).

// The mean of every block, and its sum of squared differences to this mean.
struct BatchNormMomentsArgs {
  MatrixRef x_RC;
  int64_t block_rows = 0;  // divides R
  TensorRef moments_B2C;   // fp32 [B, 2, C], written: mean, squares
};
void batch_norm_moments_ref(Stream& stream, const BatchNormMomentsArgs& args);
void check_batch_norm_moments(const BatchNormMomentsArgs& args);  // throws ContractError

// Joins the moments of all blocks. Ranks that share out the rows of images may have blocks of two
// heights. Inference needs the mean over many batches of the mean and of the unbiased variance (the
// sum of squares over R - 1; over 1 if R = 1). So both are added up like a gradient.
struct BatchNormStatisticsArgs {
  TensorRef moments_B2C;
  int64_t block_rows = 0;
  float eps = 1e-5f;
  TensorRef mean_C;          // fp32, written
  TensorRef rstd_C;          // fp32, written
  TensorRef mean_sum_C;      // fp32, written or added to; absent: not needed
  TensorRef variance_sum_C;  // the same
  Write write = Write::Overwrite;
  int64_t taller_blocks = 0;  // number of blocks at the beginning with taller_rows rows each
  int64_t taller_rows = 0;    // rows of a taller block; the others have block_rows

  // Returns the rows of the first `block` blocks.
  int64_t rows_before(int64_t block) const {
    const int64_t taller = block < taller_blocks ? block : taller_blocks;
    return taller * taller_rows + (block - taller) * block_rows;
  }
};
void batch_norm_statistics_ref(Stream& stream, const BatchNormStatisticsArgs& args);
void check_batch_norm_statistics(const BatchNormStatisticsArgs& args);  // throws ContractError

struct BatchNormForwardArgs {
  MatrixRef x_RC;
  TensorRef mean_C;
  TensorRef rstd_C;
  TensorRef gain_C;
  TensorRef bias_C;
  MatrixRef y_RC;  // written, rounded once; may be x itself
};
void batch_norm_forward_ref(Stream& stream, const BatchNormForwardArgs& args);
void check_batch_norm_forward(const BatchNormForwardArgs& args);  // throws ContractError

// The sums of dy and of dy * x_hat over every block, x_hat = (x - mean) * rstd.
struct BatchNormBackwardSumsArgs {
  MatrixRef dy_RC;
  MatrixRef x_RC;
  TensorRef mean_C;
  TensorRef rstd_C;
  int64_t block_rows = 0;
  TensorRef sums_B2C;  // fp32 [B, 2, C], written
};
void batch_norm_backward_sums_ref(Stream& stream, const BatchNormBackwardSumsArgs& args);
void check_batch_norm_backward_sums(const BatchNormBackwardSumsArgs& args);  // throws ContractError

// Joins the sums of all blocks. dx needs these totals, and they are also the gradients of bias and
// of gain.
struct BatchNormBackwardWeightArgs {
  TensorRef sums_B2C;
  TensorRef total_2C;  // fp32, written
  TensorRef dgain_C;   // fp32 or bf16; absent: not needed
  TensorRef dbias_C;   // the same
  Write write = Write::Overwrite;
};
void batch_norm_backward_weight_ref(Stream& stream, const BatchNormBackwardWeightArgs& args);
void check_batch_norm_backward_weight(const BatchNormBackwardWeightArgs& args);

// dx (+)= gain * rstd * (dy - total_0 / rows - x_hat * total_1 / rows), rounded once.
struct BatchNormBackwardInputArgs {
  MatrixRef dy_RC;
  MatrixRef x_RC;
  TensorRef mean_C;
  TensorRef rstd_C;
  TensorRef gain_C;
  TensorRef total_2C;
  int64_t total_rows = 0;  // of all blocks of which the statistics are
  MatrixRef dx_RC;         // written or added to, as `write` says; may be dy itself
  Write write = Write::Overwrite;
};
void batch_norm_backward_input_ref(Stream& stream, const BatchNormBackwardInputArgs& args);
void check_batch_norm_backward_input(const BatchNormBackwardInputArgs& args);

}  // namespace trireme
