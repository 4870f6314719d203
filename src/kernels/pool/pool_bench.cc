#include "kernels/bench_tensors.h"
#include "kernels/pool/pool_cases.h"

namespace trireme {

void bench_pool(std::vector<BenchRow>& rows, const BenchContext& context) {
  for (DType dtype : {DType::BF16, DType::F32}) {
    for (PoolKind kind : {PoolKind::Max, PoolKind::Average}) {
      for (const auto& [window, C] : kPoolBenchShapes) {
        const int64_t P = window.in_pixels(), Q = window.out_pixels();
        Tensor x = varied(dtype, {P, C}), y = varied(dtype, {Q, C}), dx(dtype, {P, C});
        const std::string name = (kind == PoolKind::Max ? " max " : " average ") +
                                 std::to_string(window.size) + "x" + std::to_string(window.size) +
                                 "/" + std::to_string(window.stride) + " of " + extents(P, C);
        const double in = double(P * C * size_of(dtype)), out = double(Q * C * size_of(dtype));
        add_bandwidth_row(
            rows, context, "pool", "forward" + name, dtype, {in + out, "read x, write y"}, [&] {
              context.kernels.pool_forward(context.stream, {kind, window, matrix(x), matrix(y)});
            });
        const bool reads_x = kind == PoolKind::Max;
        add_bandwidth_row(
            rows, context, "pool", "backward" + name, dtype,
            {(reads_x ? 2 : 1) * in + out, reads_x ? "read dy, x, write dx" : "read dy, write dx"},
            [&] {
              context.kernels.pool_backward(context.stream,
                                            {kind, window, matrix(y), matrix(x), matrix(dx)});
            });
      }
    }
  }
}

}  // namespace trireme
