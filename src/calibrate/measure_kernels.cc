#include "calibrate/measure_kernels.h"

#include <algorithm>

#include "compile/price.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/bench_tensors.h"
#include "kernels/best_seconds.h"
#include "kernels/matmul/matmul_cases.h"

namespace trireme {
namespace {

// Larger calls have the speed of these, and take long.
constexpr double kMostFlops = 1.7e9;
constexpr DType kDTypes[] = {DType::F32, DType::BF16};
// Elements of vectors: calls that are over at once, some that share a cache, and some that no cache
// holds.
constexpr int64_t kVectorLengths[] = {64, int64_t{1} << 16, int64_t{3} << 20, int64_t{1} << 23};

// Kernels to measure, and for how long each.
struct Bench {
  const KernelTable& kernels;
  Stream& stream;
  double most_seconds = 0.0;
};

double measure_product(const Bench& bench, MatmulForm form, const MatmulShape& shape, DType dtype) {
  const auto [m, n, k] = shape;
  const bool is_weight_grad = form == MatmulForm::TN;
  const Tensor a = varied(dtype, is_weight_grad ? Shape{k, m} : Shape{m, k});
  const Tensor b = varied(dtype, form == MatmulForm::NT ? Shape{n, k} : Shape{k, n});
  const Tensor c(is_weight_grad ? DType::F32 : dtype, Shape{m, n});
  const MatmulArgs args{.form = form,
                        .a = matrix(a),
                        .b = matrix(b),
                        .c = matrix(c),
                        .write = is_weight_grad ? Write::Accumulate : Write::Overwrite};
  return best_seconds_of_short(bench.most_seconds,
                               [&] { bench.kernels.matmul(bench.stream, args); });
}

void measure_products(const Bench& bench, MeasuredOperators& measured) {
  for (const DType dtype : kDTypes) {
    for (const LinearShape& linear : training_linear_shapes()) {
      for (const MatmulForm form : {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN}) {
        const MatmulShape shape = product_of(linear, form);
        const Product product{shape.rows, shape.cols, shape.k};
        if (product.flops() > kMostFlops) continue;
        measured.products.push_back({product, dtype, measure_product(bench, form, shape, dtype)});
      }
    }
  }
}

AttentionWork work_of(const AttentionShape& shape) {
  return {.sequences = shape.num_sequences,
          .heads = shape.num_heads,
          .kv_heads = shape.num_kv_heads,
          .queries = shape.q_len,
          .keys = shape.kv_len,
          .head_dim = shape.head_dim};
}

void measure_attention(const Bench& bench, const AttentionShape& shape, DType dtype,
                       MeasuredOperators& measured) {
  const Shape queries{shape.num_sequences * shape.q_len, shape.num_heads * shape.head_dim};
  const Shape keys{shape.num_sequences * shape.kv_len, shape.num_kv_heads * shape.head_dim};
  const Tensor q = varied(dtype, queries), k = varied(dtype, keys), v = varied(dtype, keys);
  const Tensor dout = varied(dtype, queries), out(dtype, queries), dq(dtype, queries);
  const Tensor dk(dtype, keys), dv(dtype, keys);
  const Tensor lse(DType::F32, Shape{shape.num_heads, queries[0]});
  const Tensor delta(DType::F32, Shape{shape.num_heads, queries[0]});
  const AttentionForwardArgs forward{.shape = shape,
                                     .q_T_HD = matrix(q),
                                     .k_T_KD = matrix(k),
                                     .v_T_KD = matrix(v),
                                     .out_T_HD = matrix(out),
                                     .lse_HT = lse};
  const AttentionBackwardArgs backward{.shape = shape,
                                       .q_T_HD = matrix(q),
                                       .k_T_KD = matrix(k),
                                       .v_T_KD = matrix(v),
                                       .out_T_HD = matrix(out),
                                       .dout_T_HD = matrix(dout),
                                       .lse_HT = lse,
                                       .delta_HT = delta,
                                       .dq_T_HD = matrix(dq),
                                       .dk_T_KD = matrix(dk),
                                       .dv_T_KD = matrix(dv)};
  const double forward_s = best_seconds_of_short(
      bench.most_seconds, [&] { bench.kernels.attention_forward(bench.stream, forward); });
  const double backward_s = best_seconds_of_short(
      bench.most_seconds, [&] { bench.kernels.attention_backward(bench.stream, backward); });
  measured.attentions.push_back({work_of(shape), false, dtype, forward_s});
  measured.attentions.push_back({work_of(shape), true, dtype, backward_s});
}

void measure_memory(const Bench& bench, int64_t n, MeasuredOperators& measured) {
  const Tensor x = varied(DType::F32, Shape{n}), y = varied(DType::F32, Shape{n});
  const Tensor z = varied(DType::F32, Shape{n});
  const Tensor half(DType::BF16, Shape{n});
  const auto add = [&](double bytes, const auto& call) {
    measured.kernels.push_back({bytes, best_seconds_of_short(bench.most_seconds, call)});
  };
  const double vector_bytes = double(n) * double(size_of(DType::F32));
  add(3.0 * vector_bytes,
      [&] { bench.kernels.sum(bench.stream, {.x_N = x, .y_N = y, .out_N = z}); });
  add(2.0 * vector_bytes,
      [&] { bench.kernels.copy_matrix(bench.stream, {.x_TN = matrix(x), .y_TN = matrix(z)}); });
  add(1.5 * vector_bytes, [&] { bench.kernels.convert(bench.stream, {x, half}); });
}

// Larger products, tiles and vectors would only take longer.
constexpr int64_t kMostRows = 256, kMostCols = 2048, kMostDepth = 1024;
constexpr int64_t kMostQueries = 256, kMostHeads = 4;
constexpr int64_t kMostVectorBytes = int64_t{96} << 20;
constexpr int64_t kFewNumbers = 64;
constexpr double kSecondsOfRunKernel = 0.008;

// Bytes per second that the sum of two vectors moves. The first three sums touch the memory.
double sum_bytes_per_s(const Bench& bench, int64_t bytes) {
  const int64_t n = bytes / (3 * int64_t{sizeof(float)});
  const Tensor x(DType::F32, Shape{n}), y(DType::F32, Shape{n}), z(DType::F32, Shape{n});
  const auto sum = [&](const Tensor& a, const Tensor& b, const Tensor& out) {
    bench.kernels.sum(bench.stream, {.x_N = a, .y_N = b, .out_N = out});
  };
  sum(x, y, z);
  sum(y, z, x);
  sum(z, x, y);
  const double seconds = best_seconds_of_short(bench.most_seconds, [&] { sum(x, y, z); });
  return double(3 * n) * sizeof(float) / seconds;
}

double matmul_share_of(const Bench& bench, const KernelSizes& sizes, double peak) {
  const int64_t rows = std::clamp<int64_t>(sizes.tokens, 1, kMostRows);
  const int64_t cols = std::clamp<int64_t>(sizes.d_ff, 1, kMostCols);
  const int64_t depth = std::clamp<int64_t>(sizes.d_model, 1, kMostDepth);
  const double flops = Product{rows, cols, depth}.flops();
  const double seconds =
      measure_product(bench, MatmulForm::NT, {rows, cols, depth}, sizes.compute) +
      measure_product(bench, MatmulForm::NN, {rows, depth, cols}, sizes.compute) +
      measure_product(bench, MatmulForm::TN, {cols, depth, rows}, sizes.compute);
  return std::min(1.0, 3.0 * flops / (seconds * peak));
}

double attention_share_of(const Bench& bench, const KernelSizes& sizes, double fp32_flops) {
  const int64_t queries = std::clamp<int64_t>(sizes.seq_len, 1, kMostQueries);
  const int64_t heads = std::clamp<int64_t>(sizes.heads, 1, kMostHeads);
  MeasuredOperators measured;
  measure_attention(bench, attention_shape(1, queries, queries, heads, heads, sizes.head_dim),
                    sizes.compute, measured);
  Hardware whole = with_own_kernels({});
  whole.fp32_flops = fp32_flops;
  whole.attention_share = 1.0;
  double priced_s = 0.0, measured_s = 0.0;
  for (const auto& [work, is_backward, dtype, seconds] : measured.attentions) {
    priced_s += price_fused_attention(work, is_backward ? kBackwardAttention : 1.0, dtype, whole);
    measured_s += seconds;
  }
  return std::min(1.0, priced_s / measured_s);
}

}  // namespace

Ceilings measure_run_kernels(const KernelTable& kernels, Stream& stream, const KernelSizes& sizes,
                             const ComputeCeilings& peaks) {
  const Bench bench{kernels, stream, kSecondsOfRunKernel};
  const bool is_bf16 = sizes.compute == DType::BF16;
  Ceilings reached{.compute = peaks};
  reached.matmul_share =
      matmul_share_of(bench, sizes, is_bf16 ? peaks.bf16_flops_per_s : peaks.fp32_flops_per_s);
  reached.attention_share = attention_share_of(bench, sizes, peaks.fp32_flops_per_s);
  constexpr int64_t kFewBytes = 3 * sizeof(float) * kFewNumbers;
  reached.copy_bytes_per_s =
      sum_bytes_per_s(bench, std::clamp(sizes.bytes, 1024 * kFewBytes, kMostVectorBytes));
  reached.launch_s = double(kFewBytes) / sum_bytes_per_s(bench, kFewBytes);
  return reached;
}

MeasuredOperators measure_kernels(const KernelTable& kernels, Stream& stream, double most_seconds) {
  const Bench bench{kernels, stream, most_seconds};
  MeasuredOperators measured;
  measure_products(bench, measured);
  for (const DType dtype : kDTypes) {
    for (const AttentionShape& shape : training_attention_shapes()) {
      if (double(attention_forward_flops(shape)) > kMostFlops) continue;
      measure_attention(bench, shape, dtype, measured);
    }
  }
  for (const int64_t length : kVectorLengths) measure_memory(bench, length, measured);
  return measured;
}

}  // namespace trireme
