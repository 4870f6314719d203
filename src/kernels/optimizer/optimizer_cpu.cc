#include <type_traits>

#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

static_assert(kTileElements % kNormChunk == 0);

// Sums in the same lane order on every instruction set.
TRIREME_INLINE double sum_of_squares(const float* x, int64_t n) {
  F64x16 even = zeros_f64(), odd = zeros_f64();
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even = add_square(even, load(x + i));
    odd = add_square(odd, load(x + i + kLanes));
  }
  for_each_vector(n - i, [&](int64_t j, auto lanes) TRIREME_INLINE_LAMBDA {
    even = add_square(even, load(x + i + j, lanes));
  });
  return reduce_sum(even + odd);
}

// Returns null if the tensor is absent.
template <typename T>
TRIREME_INLINE T* part_of(const TensorRef& x_N, int64_t begin) {
  return x_N ? static_cast<T*>(x_N.data) + begin : nullptr;
}

struct AdamWConstants {
  F32x16 grad_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, unbias1, unbias2, eps,
      weight_decay, minus_lr;
};

TRIREME_INLINE AdamWConstants constants_of(const AdamWArgs& args) {
  return {broadcast(args.grad_scale),         broadcast(args.beta1),
          broadcast(1.0f - args.beta1),       broadcast(args.beta2),
          broadcast(1.0f - args.beta2),       broadcast(1.0f / args.correction1),
          broadcast(1.0f / args.correction2), broadcast(args.eps),
          broadcast(args.weight_decay),       broadcast(-args.lr)};
}

// Type of the parameters beside their masters. NoParam: parameters are their own masters.
struct NoParam {};

template <typename Param>
void adamw_range(const AdamWArgs& args, int64_t begin, int64_t end) {
  const AdamWConstants k = constants_of(args);
  const float* grad = part_of<float>(args.grad_N, begin);
  float* master = part_of<float>(args.master_N, begin);
  float* exp_avg = part_of<float>(args.exp_avg_N, begin);
  float* exp_avg_sq = part_of<float>(args.exp_avg_sq_N, begin);
  Param* param = part_of<Param>(args.param_N, begin);
  for_each_vector(end - begin, [&](int64_t i, auto lanes) TRIREME_INLINE_LAMBDA {
    const F32x16 g = load(grad + i, lanes) * k.grad_scale;
    const F32x16 m = fma(k.beta1, load(exp_avg + i, lanes), k.one_minus_beta1 * g);
    const F32x16 v = fma(k.beta2, load(exp_avg_sq + i, lanes), k.one_minus_beta2 * g * g);
    const F32x16 step = m * k.unbias1 / (sqrt(v * k.unbias2) + k.eps);
    const F32x16 w = load(master + i, lanes);
    const F32x16 updated = fma(k.minus_lr, fma(k.weight_decay, w, step), w);
    store(exp_avg + i, m, lanes);
    store(exp_avg_sq + i, v, lanes);
    store(master + i, updated, lanes);
    if constexpr (!std::is_same_v<Param, NoParam>) store(param + i, updated, lanes);
  });
}

template <bool kHasMomentum, typename Param>
void sgd_range(const SgdArgs& args, int64_t begin, int64_t end) {
  const float* grad = part_of<float>(args.grad_N, begin);
  float* master = part_of<float>(args.master_N, begin);
  float* momentum = part_of<float>(args.momentum_N, begin);
  Param* param = part_of<Param>(args.param_N, begin);
  for_each_vector(end - begin, [&](int64_t i, auto lanes) TRIREME_INLINE_LAMBDA {
    const F32x16 w = load(master + i, lanes);
    const F32x16 g = load(grad + i, lanes) * broadcast(args.grad_scale);
    F32x16 u = fma(broadcast(args.weight_decay), w, g);
    if constexpr (kHasMomentum) {
      u = fma(broadcast(args.momentum), load(momentum + i, lanes), u);
      store(momentum + i, u, lanes);
    }
    const F32x16 updated = fma(broadcast(-args.lr), u, w);
    store(master + i, updated, lanes);
    if constexpr (!std::is_same_v<Param, NoParam>) store(param + i, updated, lanes);
  });
}

// Calls body(param) with a value of the type in which parameters are written.
template <typename Body>
void with_param(const TensorRef& param_N, Body&& body) {
  if (!param_N) {
    body(NoParam{});
  } else if (param_N.dtype == DType::F16) {
    body(f16{});
  } else {
    body(bf16{});
  }
}

}  // namespace

void squared_norm(Stream& stream, const SquaredNormArgs& args) {
  check_squared_norm(args);
  const float* grad_N = static_cast<const float*>(args.grad_N.data);
  double* partials_P = static_cast<double*>(args.partials_P.data);
  for_each_tile(stream, args.grad_N.num_elements(), kTileElements,
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t i = begin; i < end; i += kNormChunk) {
                    const int64_t n = end - i < kNormChunk ? end - i : kNormChunk;
                    partials_P[i / kNormChunk] = sum_of_squares(grad_N + i, n);
                  }
                });
}

void adamw(Stream& stream, const AdamWArgs& args) {
  check_adamw(args);
  with_param(args.param_N, [&]<typename Param>(Param) {
    for_each_tile(stream, args.grad_N.num_elements(), kTileElements,
                  [&](int64_t begin, int64_t end, int) { adamw_range<Param>(args, begin, end); });
  });
}

void sgd(Stream& stream, const SgdArgs& args) {
  check_sgd(args);
  with_param(args.param_N, [&]<typename Param>(Param) {
    const auto range = args.momentum_N ? sgd_range<true, Param> : sgd_range<false, Param>;
    for_each_tile(stream, args.grad_N.num_elements(), kTileElements,
                  [&](int64_t begin, int64_t end, int) { range(args, begin, end); });
  });
}

}  // namespace trireme::TRIREME_ISA
