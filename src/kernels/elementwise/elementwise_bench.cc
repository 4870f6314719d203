#include "kernels/bench_tensors.h"
#include "kernels/elementwise/elementwise_cases.h"

namespace trireme {

void bench_elementwise(std::vector<BenchRow>& rows, const BenchContext& context) {
  const KernelTable& kernels = context.kernels;
  Stream& stream = context.stream;
  // One size that only memory holds, and one that a cache may.
  for (int64_t n : {kElementwiseBenchCount, kElementwiseBenchCount / 16}) {
    Tensor a = varied(DType::F32, {n}), b = varied(DType::F32, {n}), c(DType::F32, {n});
    Tensor half(DType::BF16, {n});
    const auto measure = [&](const char* name, DType dtype, double bytes, auto&& call) {
      rows.push_back(bandwidth_row(context, "elementwise", name + std::to_string(n), dtype,
                                   bytes * double(n), call));
    };
    measure("convert to bf16 ", DType::F32, 6, [&] { kernels.convert(stream, {a, half}); });
    measure("convert to fp32 ", DType::BF16, 6, [&] { kernels.convert(stream, {half, c}); });
    measure("add ", DType::F32, 12, [&] { kernels.add(stream, {a, c}); });
    measure("sum ", DType::F32, 12, [&] { kernels.sum(stream, {a, b, c}); });
    measure("zero ", DType::F32, 4, [&] { kernels.zero(stream, {c}); });
    measure("fill_normal ", DType::F32, 4, [&] {
      kernels.fill_normal(stream, {{42}, 0.02f, 0, c});
    });
  }
}

}  // namespace trireme
