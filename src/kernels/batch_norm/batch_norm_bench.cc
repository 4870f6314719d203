#include "kernels/batch_norm/batch_norm_cases.h"
#include "kernels/bench_tensors.h"

namespace trireme {

void bench_batch_norm(std::vector<BenchRow>& rows, const BenchContext& context) {
  const KernelTable& kernels = context.kernels;
  for (DType dtype : {DType::BF16, DType::F32}) {
    for (const auto& [blocks, block_rows, C] : kBatchNormBenchShapes) {
      const int64_t R = blocks * block_rows;
      Tensor x = varied(dtype, {R, C}), dy = varied(dtype, {R, C}), y(dtype, {R, C});
      Tensor gain = varied(dtype, {C}), bias = varied(dtype, {C});
      Tensor sums(DType::F32, {blocks, 2, C}), total(DType::F32, {2, C});
      Tensor mean(DType::F32, {C}), rstd(DType::F32, {C});
      Tensor dgain(DType::F32, {C}), dbias(DType::F32, {C});
      const double bytes = double(R * C * size_of(dtype));
      const auto measure = [&](const char* direction, double passes, const char* formula,
                               auto&& call) {
        add_bandwidth_row(rows, context, "batch_norm", direction + extents(R, C), dtype,
                          {passes * bytes, formula}, call);
      };
      measure("forward ", 3, "read x twice, write y", [&] {
        kernels.batch_norm_moments(context.stream, {matrix(x), block_rows, sums});
        kernels.batch_norm_statistics(context.stream,
                                      {sums, block_rows, 1e-5f, mean, rstd, {}, {}});
        kernels.batch_norm_forward(context.stream, {matrix(x), mean, rstd, gain, bias, matrix(y)});
      });
      measure("backward ", 5, "read dy, x twice, write dx", [&] {
        kernels.batch_norm_backward_sums(context.stream,
                                         {matrix(dy), matrix(x), mean, rstd, block_rows, sums});
        kernels.batch_norm_backward_weight(context.stream,
                                           {sums, total, dgain, dbias, Write::Accumulate});
        kernels.batch_norm_backward_input(
            context.stream, {matrix(dy), matrix(x), mean, rstd, gain, total, R, matrix(y)});
      });
    }
  }
}

}  // namespace trireme
