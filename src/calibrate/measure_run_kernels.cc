#include "calibrate/measure_run_kernels.h"

#include <algorithm>
#include <vector>

#include "base/align.h"
#include "calibrate/measure_attention.h"
#include "calibrate/measure_norm.h"
#include "calibrate/measure_update.h"
#include "calibrate/start_bench.h"
#include "compile/kernel_price.h"
#include "compile/this_machine.h"

namespace trireme {
namespace {

// Products of more rows have the speed of these and would only take longer.
constexpr double kMostStartFlops = 2.5e9;
constexpr int64_t kMostCols = 4096, kMostDepth = 2048;
constexpr int64_t kMostTokens = 2048;
constexpr int64_t kMostQueries = 1024;
constexpr int64_t kMostNumbers = int64_t{4} << 20;  // scores, or queries
// One cache of 32 MiB keeps a third of 64 MiB, but hardly any of this.
constexpr int64_t kMostColdBytes = int64_t{256} << 20;
constexpr int64_t kFewNumbers = 16;
constexpr int64_t kFewRows = 16;
constexpr int kRounds = 3;

int64_t cols_of(const KernelSizes& sizes) { return std::clamp<int64_t>(sizes.d_ff, 1, kMostCols); }
int64_t depth_of(const KernelSizes& sizes) {
  return std::clamp<int64_t>(sizes.d_model, 1, kMostDepth);
}

int64_t rows_of(const KernelSizes& sizes) {
  const double row_flops = Product{1, cols_of(sizes), depth_of(sizes)}.flops();
  return std::clamp<int64_t>(int64_t(kMostStartFlops / row_flops), 1,
                             std::max<int64_t>(1, sizes.tokens));
}

int64_t head_cols_of(const KernelSizes& sizes) {
  const int64_t rows = std::min(rows_of(sizes), kLossTileTokens);
  const double col_flops = Product{rows, 1, depth_of(sizes)}.flops();
  return std::clamp<int64_t>(int64_t(kMostStartFlops / col_flops), 1, sizes.vocab_size);
}

struct ProductTimes {
  double flops = 0.0, bytes = 0.0, seconds = 0.0, products = 3.0;
};

// The three products of a layer. No earlier call has left the weights, their gradients, the result
// that is saved, and the saved input of the gradient's product in a cache.
ProductTimes measure_layer(StartBench& bench, const KernelSizes& sizes, int64_t rows) {
  ColdOperands& cold = bench.cold;
  const DType dtype = sizes.compute;
  const int64_t out = cols_of(sizes), in = depth_of(sizes);
  const Tensor x = varied(dtype, Shape{rows, in}), dy = varied(dtype, Shape{rows, out});
  const Tensor dx(dtype, Shape{rows, in});
  const Shape weight{out, in};
  const auto seconds = [&](const auto& args_of) {
    return bench.seconds([&] { bench.kernels.matmul(bench.stream, args_of()); });
  };
  ProductTimes times;
  times.seconds += seconds([&] {
    return MatmulArgs{.form = MatmulForm::NT,
                      .a = matrix(x),
                      .b = matrix(cold.next(dtype, weight)),
                      .c = matrix(cold.next(dtype, Shape{rows, out}))};
  });
  times.seconds += seconds([&] {
    return MatmulArgs{.form = MatmulForm::NN,
                      .a = matrix(dy),
                      .b = matrix(cold.next(dtype, weight)),
                      .c = matrix(dx)};
  });
  times.seconds += seconds([&] {
    return MatmulArgs{.form = MatmulForm::TN,
                      .a = matrix(dy),
                      .b = matrix(cold.next(dtype, Shape{rows, in})),
                      .c = matrix(cold.next(DType::F32, weight))};
  });
  const double element_bytes = double(size_of(dtype));
  const double weights = double(out) * double(in), rows_of_all = double(rows) * double(in + out);
  times.flops = 3.0 * Product{rows, out, in}.flops();
  times.bytes = 3.0 * rows_of_all * element_bytes + weights * (2.0 * element_bytes + sizeof(float));
  return times;
}

// Both products of the loss for one tile of tokens and some of the vocabulary. The logits are fp32,
// so a FLOP moves more bytes than in a layer.
ProductTimes measure_head(StartBench& bench, const KernelSizes& sizes) {
  const DType dtype = sizes.compute;
  const int64_t rows = std::min(rows_of(sizes), kLossTileTokens), in = depth_of(sizes);
  const int64_t cols = head_cols_of(sizes);
  const Shape weight{cols, in}, logits{rows, logit_columns(cols)};
  const auto next_logits = [&](DType of) {
    return cols_of(matrix(bench.cold.next(of, logits)), 0, cols);
  };
  const Tensor x = varied(dtype, Shape{rows, in}), dx(dtype, Shape{rows, in});
  ProductTimes times;
  times.seconds = bench.seconds([&] {
    bench.kernels.matmul(bench.stream, {.form = MatmulForm::NT,
                                        .a = matrix(x),
                                        .b = matrix(bench.cold.next(dtype, weight)),
                                        .c = next_logits(DType::F32)});
  });
  times.seconds += bench.seconds([&] {
    bench.kernels.matmul(bench.stream, {.form = MatmulForm::NN,
                                        .a = next_logits(dtype),
                                        .b = matrix(bench.cold.next(dtype, weight)),
                                        .c = matrix(dx)});
  });
  const double element_bytes = double(size_of(dtype));
  times.flops = 2.0 * Product{rows, cols, in}.flops();
  times.bytes = 2.0 * double((rows + cols) * in) * element_bytes +
                double(rows * cols) * (element_bytes + sizeof(float));
  times.products = 2.0;
  return times;
}

// Two measurements tell FLOPs and bytes apart: of the layer, and of products that move more bytes
// for each FLOP. These are those of the loss, or, if the vocabulary is small, those of few rows,
// whose time is that of the weights.
void measure_products(StartBench& bench, const KernelSizes& sizes, double peak,
                      RunKernels& reached) {
  const int64_t rows = rows_of(sizes);
  const ProductTimes whole = measure_layer(bench, sizes, rows);
  const ProductTimes other =
      sizes.vocab_size >= cols_of(sizes)
          ? measure_head(bench, sizes)
          : measure_layer(bench, sizes, std::clamp<int64_t>(rows / 8, 1, kFewRows));
  const auto computing_s = [&](const ProductTimes& times) {
    return std::max(0.1 * times.seconds, times.seconds - times.products * reached.launch_s);
  };
  const double whole_s = computing_s(whole), other_s = computing_s(other);
  const double determinant = whole.flops * other.bytes - other.flops * whole.bytes;
  const double s_per_flop = (whole_s * other.bytes - other_s * whole.bytes) / determinant;
  // The time of the layer is split so that neither part is negative and no FLOP beats the peak.
  const double fastest_s = 1.0 / peak, slowest_s = std::max(fastest_s, whole_s / whole.flops);
  const double flop_s = std::clamp(s_per_flop, fastest_s, slowest_s);
  reached.matmul_share = fastest_s / flop_s;
  constexpr double kNoTime = 1e-13;  // a byte that is found in a register
  const double left_s = whole_s - whole.flops * flop_s;
  reached.matmul_bytes_per_s = 1.0 / std::max(kNoTime, left_s / whole.bytes);
}

// The two norms and the activation of a layer, whose data lie in the caches.
double vector_share_of(StartBench& bench, const KernelSizes& sizes, double fp32_flops,
                       double launch_s) {
  using Operations = VectorOperations;
  const int64_t T = std::clamp<int64_t>(sizes.tokens, 1, kMostTokens), C = depth_of(sizes);
  const NormBench norm(T, C, sizes.compute);
  double measured_s = 2.0 * (bench.seconds([&] { norm.forward(bench.kernels, bench.stream); }) +
                             bench.seconds([&] { norm.input_grad(bench.kernels, bench.stream); }) +
                             bench.seconds([&] { norm.weight_grad(bench.kernels, bench.stream); }));
  double operations =
      2.0 * double(T * C) *
      (Operations::kNormForward + Operations::kNormInputGrad + Operations::kNormWeightGrad);
  double kernels = 6.0;
  if (!sizes.has_relu) {
    const Shape shape{T, cols_of(sizes)};
    const Tensor x = varied(sizes.compute, shape), dy = varied(sizes.compute, shape);
    const Tensor y(sizes.compute, shape);
    const ActivationForwardArgs forward{Activation::GeluTanh, matrix(x), matrix(y)};
    const ActivationBackwardArgs backward{Activation::GeluTanh, matrix(dy), matrix(x), matrix(y)};
    measured_s += bench.seconds([&] { bench.kernels.activation_forward(bench.stream, forward); }) +
                  bench.seconds([&] { bench.kernels.activation_backward(bench.stream, backward); });
    operations += double(shape.num_elements()) *
                  (Operations::kActivationForward + Operations::kActivationGrad);
    kernels += 2.0;
  }
  const double computing_s = std::max(0.1 * measured_s, measured_s - kernels * launch_s);
  return operations / (computing_s * fp32_flops / 2.0);
}

// The products take the measured time minus that of the operations on single scores.
double attention_share_of(StartBench& bench, const KernelSizes& sizes, const ComputeCeilings& peaks,
                          const RunKernels& reached) {
  const int64_t queries = std::clamp<int64_t>(sizes.seq_len, 1, kMostQueries);
  const int64_t head_dim = std::max<int64_t>(sizes.head_dim, 1);
  const int64_t of_a_head = queries * std::max(queries, head_dim);
  const int64_t most_heads = std::max<int64_t>(1, kMostNumbers / of_a_head);
  const int64_t heads = std::clamp<int64_t>(sizes.heads, 1, most_heads);
  const int64_t sequences = std::clamp<int64_t>(sizes.tokens / std::max<int64_t>(sizes.seq_len, 1),
                                                1, most_heads / heads);
  AttentionBench attention(attention_shape(sequences, queries, queries, heads, heads, head_dim),
                           sizes.compute, bench.cold);
  const double measured_s = bench.seconds([&] { attention.forward(bench.kernels, bench.stream); }) +
                            bench.seconds([&] { attention.backward(bench.kernels, bench.stream); });
  Hardware hardware = with_own_kernels(assumed_hardware(peaks));
  hardware.vector_share = reached.vector_share;
  hardware.launch_s = reached.launch_s;
  hardware.matmul_bytes_per_s = reached.matmul_bytes_per_s;
  const auto priced_s = [&](double share) {
    hardware.attention_share = share;
    double seconds = 0.0;
    for (const double factor : {1.0, kBackwardAttention}) {
      seconds += price_fused_attention(attention.work(), factor, sizes.compute, hardware);
    }
    return seconds;
  };
  const double products_s = priced_s(0.5) - priced_s(1.0);
  const double others_s = priced_s(1.0) - products_s;
  return std::min(1.0, products_s / std::max(0.1 * measured_s, measured_s - others_s));
}

double update_bytes_per_s(StartBench& bench, const KernelSizes& sizes) {
  UpdateBench update(sizes.params, sizes.compute == DType::BF16, bench.cold);
  return update.bytes() / bench.seconds([&] { update.update(bench.kernels, bench.stream); });
}

// Seconds of a kernel call with almost no work: products and a norm of one row.
double launch_s_of(StartBench& bench, DType dtype) {
  const Tensor x(dtype, Shape{1, kFewNumbers}), y(dtype, Shape{1, kFewNumbers});
  const Tensor weight(dtype, Shape{kFewNumbers, kFewNumbers});
  const Tensor grad(DType::F32, Shape{kFewNumbers, kFewNumbers});
  const NormBench norm(1, kFewNumbers, dtype);
  const auto product_s = [&](MatmulForm form, const Tensor& a, const Tensor& b, const Tensor& c) {
    const MatmulArgs args{.form = form, .a = matrix(a), .b = matrix(b), .c = matrix(c)};
    return bench.seconds([&] { bench.kernels.matmul(bench.stream, args); });
  };
  return (product_s(MatmulForm::NT, x, weight, y) + product_s(MatmulForm::NN, y, weight, x) +
          product_s(MatmulForm::TN, y, x, grad) +
          bench.seconds([&] { norm.forward(bench.kernels, bench.stream); })) /
         4.0;
}

RunKernels measure_round(StartBench& bench, const KernelSizes& sizes,
                         const ComputeCeilings& peaks) {
  const bool is_bf16 = sizes.compute == DType::BF16;
  bench.next_call = 0;
  RunKernels reached;
  reached.launch_s = launch_s_of(bench, sizes.compute);
  measure_products(bench, sizes, is_bf16 ? peaks.bf16_flops_per_s : peaks.fp32_flops_per_s,
                   reached);
  reached.vector_share = vector_share_of(bench, sizes, peaks.fp32_flops_per_s, reached.launch_s);
  reached.attention_share = attention_share_of(bench, sizes, peaks, reached);
  reached.memory_bytes_per_s = update_bytes_per_s(bench, sizes);
  return reached;
}

// The greatest operand of the calls fits.
int64_t cold_bytes(const KernelSizes& sizes) {
  const int64_t in = depth_of(sizes), out = cols_of(sizes), rows = rows_of(sizes);
  const int64_t vocab = sizes.vocab_size > 0 ? logit_columns(head_cols_of(sizes)) : 0;
  const int64_t greatest = std::max({rows * in, rows * out, in * out, vocab * in,
                                     vocab * std::min(rows, kLossTileTokens), kMostNumbers,
                                     std::min(sizes.params, UpdateBench::kMostParams)});
  return std::max(std::min(sizes.bytes, kMostColdBytes),
                  greatest * int64_t{sizeof(float)} + kTensorAlignment);
}

}  // namespace

RunKernels measure_run_kernels(const KernelTable& kernels, Stream& stream, const KernelSizes& sizes,
                               const ComputeCeilings& peaks,
                               const std::function<void()>& together) {
  ColdOperands cold(cold_bytes(sizes));
  StartBench bench{kernels, stream, cold, together, {}};
  for (int round = 1; round < kRounds; ++round) measure_round(bench, sizes, peaks);
  return measure_round(bench, sizes, peaks);
}

}  // namespace trireme
