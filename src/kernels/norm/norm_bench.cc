#include "kernels/bench_tensors.h"
#include "kernels/norm/norm_cases.h"

namespace trireme {
namespace {

void bench_shape(std::vector<BenchRow>& rows, const BenchContext& context, NormKind kind,
                 DType dtype, const NormShape& shape) {
  const auto [T, C] = shape;
  Tensor x = varied(dtype, {T, C}), dy = varied(dtype, {T, C}), y(dtype, {T, C});
  Tensor dresidual = varied(dtype, {T, C}), gain = varied(dtype, {C}), bias = varied(dtype, {C});
  Tensor mean(DType::F32, {T}), rstd(DType::F32, {T});
  Tensor dgain(DType::F32, {C}), dbias(DType::F32, {C});
  const bool layer = kind == NormKind::Layer;
  const TensorRef mean_T = layer ? mean.ref() : TensorRef{};
  const std::string name = (layer ? " layer " : " rms ") + extents(T, C);
  const double bytes = double(T * C * size_of(dtype));
  const auto measure = [&](const char* direction, double passes, const char* formula, auto&& call) {
    add_bandwidth_row(rows, context, "norm", direction + name, dtype, {passes * bytes, formula},
                      call);
  };
  measure("forward", 2, "read x, write y", [&] {
    context.kernels.norm_forward(
        context.stream,
        {kind, 1e-5f, matrix(x), gain, layer ? bias.ref() : TensorRef{}, matrix(y), mean_T, rstd});
  });
  measure("dX", 4, "read dy, x, dresidual, write dx", [&] {
    context.kernels.norm_backward_input(context.stream, {kind, matrix(dy), matrix(x), gain, mean_T,
                                                         rstd, matrix(dresidual), matrix(y)});
  });
  measure("dW", 2, "read dy, x", [&] {
    context.kernels.norm_backward_weight(context.stream,
                                         {kind, matrix(dy), matrix(x), mean_T, rstd, dgain,
                                          layer ? dbias.ref() : TensorRef{}, Write::Accumulate});
  });
}

}  // namespace

void bench_norm(std::vector<BenchRow>& rows, const BenchContext& context) {
  for (NormKind kind : {NormKind::Layer, NormKind::Rms}) {
    for (DType dtype : {DType::BF16, DType::F32}) {
      for (const NormShape& shape : kNormBenchShapes) {
        bench_shape(rows, context, kind, dtype, shape);
      }
    }
  }
}

}  // namespace trireme
