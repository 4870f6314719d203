#include "calibrate/measure_kernels.h"

#include <algorithm>
#include <utility>

#include "calibrate/cold_operands.h"
#include "calibrate/measure_attention.h"
#include "calibrate/measure_norm.h"
#include "calibrate/measure_update.h"
#include "kernels/bench_tensors.h"
#include "kernels/best_seconds.h"
#include "kernels/matmul/matmul_cases.h"

namespace trireme {
namespace {

// Larger calls have the speed of these, and take long. Smaller products take the time of a call.
constexpr double kMostFlops = 1.7e9;
constexpr double kLeastFlops = 1e6;
constexpr DType kDTypes[] = {DType::F32, DType::BF16};
// Elements of vectors: calls that are over at once, and some that no cache holds.
constexpr int64_t kVectorLengths[] = {64, int64_t{3} << 23};

// Tokens and channels of norms.
constexpr std::pair<int64_t, int64_t> kNormShapes[] = {{256, 768}, {2048, 384}, {768, 128}};
// More than the caches of most processors hold.
constexpr int64_t kColdBytes = int64_t{256} << 20;

// Kernels to measure, and for how long each.
struct Bench {
  const KernelTable& kernels;
  Stream& stream;
  double most_seconds = 0.0;
  ColdOperands& cold;
};

// As in a step, weights, their gradients and what a forward pass writes or has saved lie in memory,
// and the products before have just written the rest.
double measure_product(const Bench& bench, MatmulForm form, const MatmulShape& shape, DType dtype) {
  const auto [m, n, k] = shape;
  const bool is_weight_grad = form == MatmulForm::TN;
  const Shape b_shape = form == MatmulForm::NT ? Shape{n, k} : Shape{k, n};
  const Tensor a = varied(dtype, is_weight_grad ? Shape{k, m} : Shape{m, k});
  const Tensor c(dtype, Shape{m, n});
  const Shape c_shape{m, n};
  return best_seconds_of_short(bench.most_seconds, [&] {
    MatmulArgs args{
        .form = form, .a = matrix(a), .b = matrix(bench.cold.next(dtype, b_shape)), .c = matrix(c)};
    if (form == MatmulForm::NT) args.c = matrix(bench.cold.next(dtype, c_shape));
    if (is_weight_grad) args.c = matrix(bench.cold.next(DType::F32, c_shape));
    bench.kernels.matmul(bench.stream, args);
  });
}

void measure_products(const Bench& bench, MeasuredOperators& measured) {
  for (const DType dtype : kDTypes) {
    for (const LinearShape& linear : training_linear_shapes()) {
      for (const MatmulForm form : {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN}) {
        const MatmulShape shape = product_of(linear, form);
        const bool is_weight_grad = form == MatmulForm::TN;
        const Product product{.m = shape.rows,
                              .n = shape.cols,
                              .k = shape.k,
                              .result_bytes = is_weight_grad ? size_of(DType::F32) : 0};
        if (product.flops() > kMostFlops || product.flops() < kLeastFlops) continue;
        measured.products.push_back({product, dtype, measure_product(bench, form, shape, dtype)});
      }
    }
  }
}

void measure_attention(const Bench& bench, const AttentionShape& shape, DType dtype,
                       MeasuredOperators& measured) {
  AttentionBench attention(shape, dtype, bench.cold);
  const double forward_s = best_seconds_of_short(
      bench.most_seconds, [&] { attention.forward(bench.kernels, bench.stream); });
  const double backward_s = best_seconds_of_short(
      bench.most_seconds, [&] { attention.backward(bench.kernels, bench.stream); });
  measured.attentions.push_back({attention.work(), false, dtype, forward_s});
  measured.attentions.push_back({attention.work(), true, dtype, backward_s});
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

// A norm of C channels forward and backward, and the activation of four times as many.
void measure_vectors(const Bench& bench, int64_t T, int64_t C, DType dtype,
                     MeasuredOperators& measured) {
  const NormBench norm(T, C, dtype);
  const double bytes = double(T * C) * double(size_of(dtype));
  const auto add = [&](double moves, double operations, const auto& call) {
    measured.vectors.push_back({moves * bytes, operations * double(T * C),
                                best_seconds_of_short(bench.most_seconds, call)});
  };
  using Operations = VectorOperations;
  add(2.0, Operations::kNormForward, [&] { norm.forward(bench.kernels, bench.stream); });
  add(3.0, Operations::kNormInputGrad, [&] { norm.input_grad(bench.kernels, bench.stream); });
  add(2.0, Operations::kNormWeightGrad, [&] { norm.weight_grad(bench.kernels, bench.stream); });
  const Shape shape{T, 4 * C};
  const Tensor x = varied(dtype, shape), dy = varied(dtype, shape), y(dtype, shape);
  const ActivationForwardArgs forward{Activation::GeluTanh, matrix(x), matrix(y)};
  const ActivationBackwardArgs backward{Activation::GeluTanh, matrix(dy), matrix(x), matrix(y)};
  add(8.0, 4.0 * Operations::kActivationForward,
      [&] { bench.kernels.activation_forward(bench.stream, forward); });
  add(12.0, 4.0 * Operations::kActivationGrad,
      [&] { bench.kernels.activation_backward(bench.stream, backward); });
}

}  // namespace

MeasuredOperators measure_kernels(const KernelTable& kernels, Stream& stream, double most_seconds) {
  ColdOperands cold(kColdBytes);
  const Bench bench{kernels, stream, most_seconds, cold};
  MeasuredOperators measured;
  measure_products(bench, measured);
  for (const DType dtype : kDTypes) {
    for (const AttentionShape& shape : training_attention_shapes()) {
      if (double(attention_forward_flops(shape)) > kMostFlops) continue;
      measure_attention(bench, shape, dtype, measured);
    }
  }
  for (const auto& [tokens, channels] : kNormShapes) {
    measure_vectors(bench, tokens, channels, DType::BF16, measured);
  }
  for (const int64_t length : kVectorLengths) measure_memory(bench, length, measured);
  UpdateBench update(UpdateBench::kMostParams, true, cold);
  const double update_s =
      best_seconds_of_short(most_seconds, [&] { update.update(kernels, stream); });
  measured.kernels.push_back({update.bytes(), update_s});
  return measured;
}

}  // namespace trireme
