#include "kernels/bench_tensors.h"
#include "kernels/dropout/dropout_cases.h"

namespace trireme {

void bench_dropout(std::vector<BenchRow>& rows, const BenchContext& context) {
  const auto [T, C, rows_per_sample] = kDropoutBenchShape;
  for (DType dtype : {DType::BF16, DType::F32}) {
    Tensor x = varied(dtype, {T, C}), residual = varied(dtype, {T, C}), y(dtype, {T, C});
    const DropoutArgs args{.x_TC = matrix(x),
                           .residual_TC = matrix(residual),
                           .y_TC = matrix(y),
                           .probability = 0.1f,
                           .key = {42},
                           .rows_per_sample = rows_per_sample};
    add_bandwidth_row(rows, context, "dropout", extents(T, C), dtype,
                      {3.0 * double(T * C * size_of(dtype)), "read x, residual, write y"},
                      [&] { context.kernels.dropout(context.stream, args); });
  }
}

}  // namespace trireme
