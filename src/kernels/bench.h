#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/order_statistics.h"
#include "kernels/kernel_table.h"

namespace trireme {

// A measurement of one kernel.
struct BenchRow {
  std::string family;
  std::string shape;
  DType dtype = DType::F32;
  double seconds = 0.0;  // median
  double flops = 0.0;    // 0: the row counts bytes
  double bytes = 0.0;    // bytes moved at least; 0: the row counts FLOPs
  std::string formula;   // how the FLOPs or the bytes are counted
  std::string baseline;  // empty: not measured
  double baseline_seconds = 0.0;

  bool counts_flops() const { return flops > 0.0; }
  double rate() const { return (counts_flops() ? flops : bytes) / seconds; }
};

// Another library's product of the same operands, with an fp32 result.
struct MatmulBaseline {
  std::string name;
  std::function<void(const MatmulArgs&, float* c_MN)> run;
};

struct BenchContext {
  const KernelTable& kernels;
  Stream& stream;
  std::string filter = {};                   // only rows whose name contains it are measured
  const MatmulBaseline* baseline = nullptr;  // absent: products are measured without a comparison

  bool wants(const std::string& family, const std::string& shape, DType dtype) const {
    return (family + " " + shape + " " + std::string(name_of(dtype))).find(filter) !=
           std::string::npos;
  }
};

// Returns the median seconds of a call, over repeated calls that last about 60 ms together.
template <typename Body>
double median_seconds(Body&& body) {
  const auto timed = [&](int calls) {
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count() / calls;
  };
  timed(1);  // touches the memory
  const double once = timed(1);
  // Includes the cost of reading the clock.
  const int calls = std::max(1, int(2e-4 / std::max(once, 1e-9)));
  const int samples = std::clamp(int(0.06 / (once * calls)), 3, 101);
  std::vector<double> seconds;
  for (int sample = 0; sample < samples; ++sample) seconds.push_back(timed(calls));
  return upper_median(std::move(seconds));
}

// One function per family, in its x_bench.cc; each appends rows.
void bench_matmul(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_moe(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_attention(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_norm(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_scale(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_activation(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_embedding(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_rope(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_cross_entropy(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_convolution(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_batch_norm(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_pool(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_dropout(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_elementwise(std::vector<BenchRow>& rows, const BenchContext& context);
void bench_optimizer(std::vector<BenchRow>& rows, const BenchContext& context);

struct BenchFamily {
  std::string name;
  void (*bench)(std::vector<BenchRow>& rows, const BenchContext& context);
};
std::vector<BenchFamily> bench_families();

}  // namespace trireme
