#include <type_traits>

#include "kernels/kernels_cpu.h"
#include "kernels/simd_hash.h"
#include "kernels/simd_philox.h"
#include "kernels/streamed_stores.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

static_assert(kTileElements % kNormChunk == 0);

// Sums in the same lane order on every instruction set.
template <typename T>
TRIREME_INLINE double sum_of_squares(const T* x, int64_t n) {
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

// Type of a tensor that is absent.
struct Absent {};

constexpr int64_t kWordsOfBlock = 128;

// Calls body(position, lanes, words) for the vectors of elements [begin, end) of a tensor, with
// positions from begin on and the elements' random words. kRounds: whether the body reads them.
template <bool kRounds, typename Body>
TRIREME_INLINE void for_each_rounded_vector(const RoundingWords& rounding, int64_t begin,
                                            int64_t end, Body&& body) {
  if constexpr (!kRounds) {
    for_each_vector(end - begin, [&](int64_t i, auto lanes)
                                     TRIREME_INLINE_LAMBDA { body(i, lanes, broadcast_u32(0)); });
    return;
  }
  uint32_t words[kWordsOfBlock + kLanes] = {};  // the last vector may read behind its lanes
  for (int64_t i = begin; i < end;) {
    const int64_t of_box = rounding.first + i;
    const uint64_t element = uint64_t(rounding.box.in_whole(of_box));
    const int64_t skipped = int64_t(element % 4), run = rounding.box.run(of_box, end - i);
    const int64_t count = run < kWordsOfBlock - skipped ? run : kWordsOfBlock - skipped;
    words_of_elements(rounding.key, rounding.update, element - uint64_t(skipped), words);
    for_each_vector(count, [&](int64_t j, auto lanes) TRIREME_INLINE_LAMBDA {
      body(i - begin + j, lanes, load(words + skipped + j));
    });
    i += count;
  }
}

// Stores to fp32, or to bf16 rounded by 16 random bits.
template <typename Lanes>
TRIREME_INLINE void store_rounded(float* p, F32x16 x, U32x16, Lanes lanes) {
  store(p, x, lanes);
}
template <typename Lanes>
TRIREME_INLINE void store_rounded(bf16* p, F32x16 x, U32x16 random, Lanes lanes) {
  store(p, round_stochastically(x, random), lanes);
}

TRIREME_INLINE U32x16 lower_half(U32x16 words) { return words & broadcast_u32(0xffffu); }
TRIREME_INLINE U32x16 upper_half(U32x16 words) { return words >> 16; }

template <typename... T>
constexpr bool kHasBf16 = (std::is_same_v<T, bf16> || ...);

struct AdamWVectors {
  F32x16 master, exp_avg, exp_avg_sq;
};
TRIREME_INLINE AdamWVectors updated(const AdamWConstants& k, F32x16 grad, const AdamWVectors& x) {
  const F32x16 g = grad * k.grad_scale;
  const F32x16 m = fma(k.beta1, x.exp_avg, k.one_minus_beta1 * g);
  const F32x16 v = fma(k.beta2, x.exp_avg_sq, k.one_minus_beta2 * g * g);
  const F32x16 step = m * k.unbias1 / (sqrt(v * k.unbias2) + k.eps);
  return {fma(k.minus_lr, fma(k.weight_decay, x.master, step), x.master), m, v};
}

// The forward pass reads the parameters of a tensor after those of all others were updated.
TRIREME_INLINE bool streams_param(const TensorRef& param_N) {
  return param_N && param_N.num_elements() >= kLeastStreamedNumbers &&
         reinterpret_cast<uintptr_t>(param_N.data) % 64 == 0;
}

template <typename Param, typename Lanes>
TRIREME_INLINE void store_param(Param* param, F32x16 x, Lanes lanes, bool streams) {
  if constexpr (std::is_same_v<Lanes, AllLanes>) {
    if (streams) return store_streaming(param, x);
  }
  store(param, x, lanes);
}

template <typename Grad, typename Master, typename Moment, typename Param>
void adamw_range(const AdamWArgs& args, int64_t begin, int64_t end) {
  const AdamWConstants k = constants_of(args);
  const Grad* grad = part_of<Grad>(args.grad_N, begin);
  Master* master = part_of<Master>(args.master_N, begin);
  Moment* exp_avg = part_of<Moment>(args.exp_avg_N, begin);
  Moment* exp_avg_sq = part_of<Moment>(args.exp_avg_sq_N, begin);
  Param* param = part_of<Param>(args.param_N, begin);
  // Rounding words begin anywhere, and so do the vectors of their blocks.
  const bool streams = !kHasBf16<Master, Moment> && streams_param(args.param_N);
  const auto update = [&](int64_t i, auto lanes, U32x16 words) TRIREME_INLINE_LAMBDA {
    const AdamWVectors x =
        updated(k, load(grad + i, lanes),
                {load(master + i, lanes), load(exp_avg + i, lanes), load(exp_avg_sq + i, lanes)});
    store_rounded(exp_avg + i, x.exp_avg, lower_half(words), lanes);
    store_rounded(exp_avg_sq + i, x.exp_avg_sq, upper_half(words), lanes);
    store_rounded(master + i, x.master, lower_half(words), lanes);
    if constexpr (!std::is_same_v<Param, Absent>) store_param(param + i, x.master, lanes, streams);
  };
  for_each_rounded_vector<kHasBf16<Master, Moment>>(args.rounding, begin, end, update);
  if (streams) _mm_sfence();  // before other threads may read them
}

// Updates all elements and writes the copies that args.copies asks for.
template <typename Grad, typename Param, bool kKeepsMaster, bool kKeepsMoments>
void adamw_with_copies(const AdamWArgs& args) {
  const AdamWConstants k = constants_of(args);
  const Grad* grad = part_of<Grad>(args.grad_N, 0);
  float* master = part_of<float>(args.master_N, 0);
  float* exp_avg = part_of<float>(args.exp_avg_N, 0);
  float* exp_avg_sq = part_of<float>(args.exp_avg_sq_N, 0);
  Param* param = part_of<Param>(args.param_N, 0);
  const auto stream_to = [](const HashedWrite& copy)
                             TRIREME_INLINE_LAMBDA { return HashedStream(copy.to, *copy.hash); };
  HashedStream masters = stream_to(args.copies.master);
  HashedStream exp_avgs = stream_to(args.copies.exp_avg);
  HashedStream exp_avg_sqs = stream_to(args.copies.exp_avg_sq);
  const int64_t n = args.grad_N.num_elements();
  for (int64_t begin = 0; begin < n; begin += kStripesOfBlock * kLanes) {
    for (int64_t stripe = 0; stripe < kStripesOfBlock; ++stripe) {
      const int64_t i = begin + stripe * kLanes;
      const AdamWVectors x =
          updated(k, load(grad + i), {load(master + i), load(exp_avg + i), load(exp_avg_sq + i)});
      if constexpr (kKeepsMoments) {
        store(exp_avg + i, x.exp_avg);
        store(exp_avg_sq + i, x.exp_avg_sq);
      }
      if constexpr (kKeepsMaster) store(master + i, x.master);
      exp_avgs.take(i, stripe, x.exp_avg);
      exp_avg_sqs.take(i, stripe, x.exp_avg_sq);
      masters.take(i, stripe, x.master);
      if constexpr (!std::is_same_v<Param, Absent>) store(param + i, x.master);
    }
    exp_avgs.end_block();
    exp_avg_sqs.end_block();
    masters.end_block();
  }
  masters.end(*args.copies.master.hash);
  exp_avgs.end(*args.copies.exp_avg.hash);
  exp_avg_sqs.end(*args.copies.exp_avg_sq.hash);
}

template <typename Grad, typename Master, typename Momentum, typename Param>
void sgd_range(const SgdArgs& args, int64_t begin, int64_t end) {
  const Grad* grad = part_of<Grad>(args.grad_N, begin);
  Master* master = part_of<Master>(args.master_N, begin);
  Momentum* momentum = part_of<Momentum>(args.momentum_N, begin);
  Param* param = part_of<Param>(args.param_N, begin);
  const auto update = [&](int64_t i, auto lanes, U32x16 words) TRIREME_INLINE_LAMBDA {
    const F32x16 w = load(master + i, lanes);
    const F32x16 g = load(grad + i, lanes) * broadcast(args.grad_scale);
    F32x16 u = fma(broadcast(args.weight_decay), w, g);
    if constexpr (!std::is_same_v<Momentum, Absent>) {
      u = fma(broadcast(args.momentum), load(momentum + i, lanes), u);
      store_rounded(momentum + i, u, upper_half(words), lanes);
    }
    const F32x16 updated = fma(broadcast(-args.lr), u, w);
    store_rounded(master + i, updated, lower_half(words), lanes);
    if constexpr (!std::is_same_v<Param, Absent>) store(param + i, updated, lanes);
  };
  for_each_rounded_vector<kHasBf16<Master, Momentum>>(args.rounding, begin, end, update);
}

template <typename Grad, typename Momentum, typename Update>
void momentum_range(const MomentumArgs& args, int64_t begin, int64_t end) {
  const Grad* grad = part_of<Grad>(args.grad_N, begin);
  Momentum* momentum = part_of<Momentum>(args.momentum_N, begin);
  Update* written = part_of<Update>(args.update_N, begin);
  const F32x16 decay = broadcast(args.momentum);
  const auto update = [&](int64_t i, auto lanes, U32x16 words) TRIREME_INLINE_LAMBDA {
    const F32x16 g = load(grad + i, lanes) * broadcast(args.grad_scale);
    const F32x16 u = fma(decay, load(momentum + i, lanes), g);
    store_rounded(momentum + i, u, upper_half(words), lanes);
    store(written + i, fma(decay, u, g), lanes);
  };
  for_each_rounded_vector<kHasBf16<Momentum>>(args.rounding, begin, end, update);
}

template <typename T>
void weighted_sum_row(const WeightedSumArgs& args, int64_t row) {
  const T* a = args.a_MN.row<T>(row);
  const T* b = args.b_MN ? args.b_MN.row<T>(row) : nullptr;
  T* out = args.out_MN.row<T>(row);
  const F32x16 a_factor = broadcast(args.a_factor), b_factor = broadcast(args.b_factor);
  const auto sum = [&](int64_t i, auto lanes, F32x16 addend) TRIREME_INLINE_LAMBDA {
    if (b != nullptr) addend = fma(b_factor, load(b + i, lanes), addend);
    return fma(a_factor, load(a + i, lanes), addend);
  };
  // The element on the diagonal is computed first, because `out` may overwrite its inputs.
  const bool has_diagonal = args.diagonal != 0.0f && row < args.a_MN.cols;
  F32x16 on_diagonal = broadcast(0.0f);
  if (has_diagonal) {
    for_each_vector(1, [&](int64_t, auto lanes) TRIREME_INLINE_LAMBDA {
      on_diagonal = sum(row, lanes, broadcast(args.diagonal));
    });
  }
  for_each_vector(args.a_MN.cols, [&](int64_t i, auto lanes) TRIREME_INLINE_LAMBDA {
    store(out + i, sum(i, lanes, broadcast(0.0f)), lanes);
  });
  if (has_diagonal) {
    for_each_vector(1, [&](int64_t, auto lanes)
                           TRIREME_INLINE_LAMBDA { store(out + row, on_diagonal, lanes); });
  }
}

// Calls body(grad, master, param) with values of the types of these tensors. A master in bf16 is
// the parameter itself.
template <typename Body>
void with_tensors(const TensorRef& grad_N, const TensorRef& master_N, const TensorRef& param_N,
                  Body&& body) {
  with_state(grad_N.dtype, [&](auto grad) {
    if (master_N.dtype == DType::BF16) {
      body(grad, bf16{}, Absent{});
    } else if (!param_N) {
      body(grad, float{}, Absent{});
    } else if (param_N.dtype == DType::F16) {
      body(grad, float{}, f16{});
    } else {
      body(grad, float{}, bf16{});
    }
  });
}

}  // namespace

void squared_norm(Stream& stream, const SquaredNormArgs& args) {
  check_squared_norm(args);
  double* partials_P = static_cast<double*>(args.partials_P.data);
  with_state(args.grad_N.dtype, [&]<typename Grad>(Grad) {
    const Grad* grad_N = static_cast<const Grad*>(args.grad_N.data);
    for_each_tile(stream, args.grad_N.num_elements(), kTileElements,
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; i += kNormChunk) {
                      const int64_t n = end - i < kNormChunk ? end - i : kNormChunk;
                      partials_P[i / kNormChunk] = sum_of_squares(grad_N + i, n);
                    }
                  });
  });
}

void adamw(Stream& stream, const AdamWArgs& args) {
  check_adamw(args);
  with_tensors(args.grad_N, args.master_N, args.param_N,
               [&]<typename Grad, typename Master, typename Param>(Grad, Master, Param) {
                 if (args.copies) {
                   const auto run =
                       args.copies.keeps_moments  ? adamw_with_copies<Grad, Param, true, true>
                       : args.copies.keeps_master ? adamw_with_copies<Grad, Param, true, false>
                                                  : adamw_with_copies<Grad, Param, false, false>;
                   return run(args);
                 }
                 const bool has_bf16 = args.exp_avg_N.dtype == DType::BF16;
                 const auto range = has_bf16 ? adamw_range<Grad, Master, bf16, Param>
                                             : adamw_range<Grad, Master, float, Param>;
                 for_each_tile(stream, args.grad_N.num_elements(), kTileElements,
                               [&](int64_t begin, int64_t end, int) { range(args, begin, end); });
               });
}

void momentum(Stream& stream, const MomentumArgs& args) {
  check_momentum(args);
  with_state(args.grad_N.dtype, [&]<typename Grad>(Grad) {
    with_state(args.momentum_N.dtype, [&]<typename Momentum>(Momentum) {
      const bool has_bf16 = args.update_N.dtype == DType::BF16;
      const auto range =
          has_bf16 ? momentum_range<Grad, Momentum, bf16> : momentum_range<Grad, Momentum, float>;
      for_each_tile(stream, args.grad_N.num_elements(), kTileElements,
                    [&](int64_t begin, int64_t end, int) { range(args, begin, end); });
    });
  });
}

void weighted_sum(Stream& stream, const WeightedSumArgs& args) {
  check_weighted_sum(args);
  with_state(args.a_MN.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.a_MN.rows, args.a_MN.cols, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) weighted_sum_row<T>(args, row);
    });
  });
}

void sgd(Stream& stream, const SgdArgs& args) {
  check_sgd(args);
  with_tensors(args.grad_N, args.master_N, args.param_N,
               [&]<typename Grad, typename Master, typename Param>(Grad, Master, Param) {
                 const bool has_bf16 = args.momentum_N.dtype == DType::BF16;
                 const auto range = !args.momentum_N ? sgd_range<Grad, Master, Absent, Param>
                                    : has_bf16       ? sgd_range<Grad, Master, bf16, Param>
                                                     : sgd_range<Grad, Master, float, Param>;
                 for_each_tile(stream, args.grad_N.num_elements(), kTileElements,
                               [&](int64_t begin, int64_t end, int) { range(args, begin, end); });
               });
}

}  // namespace trireme::TRIREME_ISA
