#include "kernels/bench_tensors.h"
#include "kernels/elementwise/elementwise_cases.h"

namespace trireme {

void bench_elementwise(std::vector<BenchRow>& rows, const BenchContext& context) {
  const KernelTable& kernels = context.kernels;
  Stream& stream = context.stream;
  // One size larger than the caches and one that may fit into a cache.
  for (int64_t n : {kElementwiseBenchCount, kElementwiseBenchCount / 16}) {
    Tensor a = varied(DType::F32, {n}), b = varied(DType::F32, {n}), c(DType::F32, {n});
    Tensor half(DType::BF16, {n});
    const auto measure = [&](const char* name, DType dtype, double bytes, const char* formula,
                             auto&& call) {
      add_bandwidth_row(rows, context, "elementwise", name + std::to_string(n), dtype,
                        {bytes * double(n), formula}, call);
    };
    measure("convert to bf16 ", DType::F32, 6, "read a, write b", [&] {
      kernels.convert(stream, {a, half});
    });
    measure("convert to fp32 ", DType::BF16, 6, "read a, write b", [&] {
      kernels.convert(stream, {half, c});
    });
    measure("add ", DType::F32, 12, "read a, b, write b", [&] { kernels.add(stream, {a, c}); });
    measure("sum ", DType::F32, 12, "read a, b, write c", [&] { kernels.sum(stream, {a, b, c}); });
    measure("zero ", DType::F32, 4, "write a", [&] { kernels.zero(stream, {c}); });
    measure("fill_normal ", DType::F32, 4, "write a", [&] {
      kernels.fill_normal(stream, {{42}, 0.02f, 0, c});
    });
  }
}

}  // namespace trireme
