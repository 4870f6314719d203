#include <cmath>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/ref_access.h"

namespace trireme {
namespace {

int64_t at(const TensorRef& sums_B2C, int64_t block, int64_t sum, int64_t c) {
  const int64_t cols = sums_B2C.num_elements() / (2 * sums_B2C.shape[0]);
  return (2 * block + sum) * cols + c;
}

double x_hat(const MatrixRef& x_RC, const TensorRef& mean_C, const TensorRef& rstd_C, int64_t r,
             int64_t c) {
  return (read(x_RC, r, c) - read(mean_C, c)) * read(rstd_C, c);
}

}  // namespace

void batch_norm_moments_ref(Stream&, const BatchNormMomentsArgs& args) {
  check_batch_norm_moments(args);
  for (int64_t block = 0; block * args.block_rows < args.x_RC.rows; ++block) {
    for (int64_t c = 0; c < args.x_RC.cols; ++c) {
      const int64_t begin = block * args.block_rows, end = begin + args.block_rows;
      double mean = 0.0, squares = 0.0;
      for (int64_t r = begin; r < end; ++r) mean += read(args.x_RC, r, c);
      mean /= double(args.block_rows);
      for (int64_t r = begin; r < end; ++r) squares += std::pow(read(args.x_RC, r, c) - mean, 2);
      write(args.moments_B2C, (2 * block) * args.x_RC.cols + c, mean);
      write(args.moments_B2C, (2 * block + 1) * args.x_RC.cols + c, squares);
    }
  }
}

void batch_norm_statistics_ref(Stream&, const BatchNormStatisticsArgs& args) {
  check_batch_norm_statistics(args);
  const TensorRef& moments = args.moments_B2C;
  const int64_t blocks = moments.shape[0], cols = moments.shape[2];
  const double rows = double(args.rows_before(blocks));
  const auto rows_of = [&](int64_t b) {
    return double(args.rows_before(b + 1) - args.rows_before(b));
  };
  for (int64_t c = 0; c < cols; ++c) {
    double mean = 0.0, squares = 0.0;
    for (int64_t b = 0; b < blocks; ++b) mean += rows_of(b) * read(moments, at(moments, b, 0, c));
    mean /= rows;
    for (int64_t b = 0; b < blocks; ++b) {
      squares += read(moments, at(moments, b, 1, c)) +
                 rows_of(b) * std::pow(read(moments, at(moments, b, 0, c)) - mean, 2);
    }
    write(args.mean_C, c, mean);
    write(args.rstd_C, c, 1.0 / std::sqrt(squares / rows + double(args.eps)));
    const auto add = [&](const TensorRef& sum_C, double addend) {
      if (!sum_C) return;
      write(sum_C, c, args.write == Write::Accumulate ? read(sum_C, c) + addend : addend);
    };
    add(args.mean_sum_C, mean);
    add(args.variance_sum_C, squares / (rows > 1 ? rows - 1 : 1));
  }
}

void batch_norm_forward_ref(Stream&, const BatchNormForwardArgs& args) {
  check_batch_norm_forward(args);
  for (int64_t r = 0; r < args.x_RC.rows; ++r) {
    for (int64_t c = 0; c < args.x_RC.cols; ++c) {
      write(args.y_RC, r, c,
            x_hat(args.x_RC, args.mean_C, args.rstd_C, r, c) * read(args.gain_C, c) +
                read(args.bias_C, c));
    }
  }
}

void batch_norm_backward_sums_ref(Stream&, const BatchNormBackwardSumsArgs& args) {
  check_batch_norm_backward_sums(args);
  const int64_t cols = args.x_RC.cols;
  for (int64_t block = 0; block * args.block_rows < args.x_RC.rows; ++block) {
    for (int64_t c = 0; c < cols; ++c) {
      double sums[2] = {};
      for (int64_t r = block * args.block_rows; r < (block + 1) * args.block_rows; ++r) {
        const double dy = read(args.dy_RC, r, c);
        sums[0] += dy;
        sums[1] += dy * x_hat(args.x_RC, args.mean_C, args.rstd_C, r, c);
      }
      for (int k = 0; k < 2; ++k) write(args.sums_B2C, (2 * block + k) * cols + c, sums[k]);
    }
  }
}

void batch_norm_backward_weight_ref(Stream&, const BatchNormBackwardWeightArgs& args) {
  check_batch_norm_backward_weight(args);
  const TensorRef& sums = args.sums_B2C;
  const int64_t cols = sums.shape[2];
  for (int k = 0; k < 2; ++k) {
    const TensorRef& gradient_C = k == 0 ? args.dbias_C : args.dgain_C;
    for (int64_t c = 0; c < cols; ++c) {
      double total = 0.0;
      for (int64_t b = 0; b < sums.shape[0]; ++b) total += read(sums, at(sums, b, k, c));
      write(args.total_2C, k * cols + c, total);
      if (!gradient_C) continue;
      const double before = args.write == Write::Accumulate ? read(gradient_C, c) : 0.0;
      write(gradient_C, c, before + total);
    }
  }
}

void batch_norm_backward_input_ref(Stream&, const BatchNormBackwardInputArgs& args) {
  check_batch_norm_backward_input(args);
  const int64_t cols = args.x_RC.cols;
  const double rows = double(args.total_rows);
  for (int64_t r = 0; r < args.x_RC.rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const double inner =
          read(args.dy_RC, r, c) - read(args.total_2C, c) / rows -
          x_hat(args.x_RC, args.mean_C, args.rstd_C, r, c) * read(args.total_2C, cols + c) / rows;
      const double before = args.write == Write::Accumulate ? read(args.dx_RC, r, c) : 0.0;
      write(args.dx_RC, r, c, before + read(args.gain_C, c) * read(args.rstd_C, c) * inner);
    }
  }
}

}  // namespace trireme
