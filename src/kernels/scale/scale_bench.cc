#include "kernels/bench_tensors.h"
#include "kernels/scale/scale_cases.h"

namespace trireme {

void bench_scale(std::vector<BenchRow>& rows, const BenchContext& context) {
  for (DType dtype : {DType::BF16, DType::F32}) {
    for (const auto& [T, C] : kScaleBenchShapes) {
      Tensor x = varied(dtype, {T, C}), dy = varied(dtype, {T, C}), addend = varied(dtype, {T, C});
      Tensor gain = varied(dtype, {C}), y(dtype, {T, C}), dgain(DType::F32, {C});
      const double bytes = double(T * C * size_of(dtype));
      const std::string shape = extents(T, C);
      const auto measure = [&](const char* direction, double passes, const char* formula,
                               auto&& call) {
        add_bandwidth_row(rows, context, "scale", direction + shape, dtype,
                          {passes * bytes, formula}, call);
      };
      measure("forward ", 2, "read x, write y", [&] {
        context.kernels.scale_forward(context.stream, {matrix(x), gain, matrix(y)});
      });
      measure("dX ", 3, "read dy, addend, write dx", [&] {
        context.kernels.scale_backward_input(context.stream,
                                             {matrix(dy), gain, matrix(addend), matrix(y)});
      });
      measure("dW ", 2, "read dy, x", [&] {
        context.kernels.scale_backward_weight(context.stream,
                                              {matrix(dy), matrix(x), dgain, Write::Accumulate});
      });
    }
  }
}

}  // namespace trireme
