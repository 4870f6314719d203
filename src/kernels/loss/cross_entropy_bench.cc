#include "kernels/bench_tensors.h"
#include "kernels/loss/cross_entropy_cases.h"

namespace trireme {

void bench_cross_entropy(std::vector<BenchRow>& rows, const BenchContext& context) {
  const auto [T, V] = kLossBenchShape;
  Tensor logits = varied(DType::F32, {T, V}), targets(DType::I32, {T}), loss(DType::F32, {T});
  Tensor part(DType::F32, {3, T}), max(DType::F32, {T}), sum(DType::F32, {T});
  Tensor gradients(DType::BF16, {T, V});
  const double bytes = double(T * V * size_of(DType::F32));
  const auto measure = [&](const char* name, DType dtype, MovedBytes moved, MatrixRef dlogits_TV) {
    add_bandwidth_row(rows, context, "loss", name + extents(T, V), dtype, moved, [&] {
      context.kernels.softmax_part(context.stream, {matrix(logits), targets, 0, V, matrix(part)});
      context.kernels.cross_entropy(context.stream, {matrix(part), targets, loss, max, sum});
      if (!dlogits_TV) return;
      context.kernels.cross_entropy_gradient(context.stream,
                                             {matrix(logits), targets, 0, max, sum, dlogits_TV});
    });
  };
  measure("loss alone ", DType::F32, {bytes, "read logits"}, {});
  measure("with dlogits ", DType::BF16, {2.5 * bytes, "read logits twice, write dlogits"},
          matrix(gradients));
  measure("dlogits in place ", DType::F32, {3 * bytes, "read logits twice, write dlogits"},
          matrix(logits));
}

}  // namespace trireme
