#pragma once

// The vectors of the *_cpu.cc files, which are compiled once per instruction set. A vector always
// has 16 lanes (one zmm register or two ymm), sums its lanes in one order, and contracts only where
// fma is written. So a kernel gives the same bits on every instruction set. Everything is in the
// namespace of the instruction set and is always inlined.
#include "kernels/inline.h"

#if defined(__AVX512F__)
#include "kernels/simd_avx512.h"
#else
#include "kernels/simd_avx2.h"
#endif

namespace trireme::TRIREME_ISA {

inline constexpr int64_t kLanes = 16;

// All lanes. It replaces FirstLanes for whole vectors, so that the body of a loop is written once.
struct AllLanes {};
template <typename T>
TRIREME_INLINE F32x16 load(const T* p, AllLanes) {
  return load(p);
}
template <typename T>
TRIREME_INLINE void store(T* p, F32x16 x, AllLanes) {
  store(p, x);
}

// Calls body(position, lanes) for the vectors of a row of n elements. The last vector may be
// partial.
template <typename Body>
TRIREME_INLINE void for_each_vector(int64_t n, Body&& body) {
  int64_t position = 0;
  for (; position + kLanes <= n; position += kLanes) body(position, AllLanes{});
  if (position < n) body(position, FirstLanes{n - position});
}

TRIREME_INLINE F32x16 splat(F32x16, float value) { return broadcast(value); }
TRIREME_INLINE U32x16 splat_bits(F32x16, uint32_t value) { return broadcast_u32(value); }

// Lane indices 0 .. 15, to select the lanes of a partial vector.
TRIREME_INLINE U32x16 lane_indices() {
  alignas(64) static constexpr uint32_t kIndices[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                        8, 9, 10, 11, 12, 13, 14, 15};
  return load(kIndices);
}
TRIREME_INLINE F32x16 keep_lanes(F32x16 x, AllLanes, F32x16) { return x; }
// Returns x in the first lanes and `other` in the rest.
TRIREME_INLINE F32x16 keep_lanes(F32x16 x, FirstLanes lanes, F32x16 other) {
  return select(lane_indices() < broadcast_u32(uint32_t(lanes.n)), x, other);
}

TRIREME_INLINE F32x16 abs(F32x16 x) { return from_bits(bits_of(x) & broadcast_u32(~(1u << 31))); }

// The vector form of round_stochastically() (base/stochastic_rounding.h): every lane of the result
// is a bf16. `random` has 16 bits.
TRIREME_INLINE F32x16 round_stochastically(F32x16 x, U32x16 random) {
  return select(is_nan(x), x, from_bits((bits_of(x) + random) & broadcast_u32(0xffff0000u)));
}

// Sums the lanes in a fixed order: i with i + 8, then i + 4, i + 2, i + 1.
TRIREME_INLINE float reduce_sum(F32x16 x) {
  const __m256 eight = fold_sum(x);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
TRIREME_INLINE float reduce_max(F32x16 x) {
  const __m256 eight = fold_max(x);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
TRIREME_INLINE double reduce_sum(F64x16 x) {
  const __m256d four = fold_sum(x);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

// Sums over a row of n elements in an order that depends only on n. add(position, lanes, chain)
// adds the terms of a vector to chain[0 .. kSums - 1]; four chains run in parallel.
template <int kSums, typename Add>
TRIREME_INLINE void sum_row(int64_t n, float (&sums)[kSums], Add&& add) {
  F32x16 chain[4][kSums];
  for (auto& sum : chain) {
    for (int k = 0; k < kSums; ++k) sum[k] = zeros();
  }
  int64_t position = 0;
  for (; position + 4 * kLanes <= n; position += 4 * kLanes) {
    add(position, AllLanes{}, chain[0]);
    add(position + kLanes, AllLanes{}, chain[1]);
    add(position + 2 * kLanes, AllLanes{}, chain[2]);
    add(position + 3 * kLanes, AllLanes{}, chain[3]);
  }
  for (; position + kLanes <= n; position += kLanes) add(position, AllLanes{}, chain[0]);
  if (position < n) add(position, FirstLanes{n - position}, chain[1]);
  for (int k = 0; k < kSums; ++k) {
    sums[k] = reduce_sum((chain[0][k] + chain[1][k]) + (chain[2][k] + chain[3][k]));
  }
}

// Loads a scalar without calling the inline functions of bf16.
TRIREME_INLINE float load_scalar(const float* p) { return *p; }
TRIREME_INLINE float load_scalar(const bf16* p) {
  return __builtin_bit_cast(float, uint32_t{p->bits} << 16);
}
TRIREME_INLINE float load_scalar(const f16* p) { return _cvtsh_ss(p->bits); }

// Calls body(element) with a value of the dtype's type: float or bf16, which gradients of
// parameters and the optimizer's state have.
template <typename Body>
TRIREME_INLINE void with_state(DType dtype, Body&& body) {
  if (dtype == DType::BF16) {
    body(bf16{});
  } else {
    body(float{});
  }
}

// Calls body(element) with a value of the dtype's type: float, bf16 or f16.
template <typename Body>
TRIREME_INLINE void with_element(DType dtype, Body&& body) {
  if (dtype == DType::BF16) {
    body(bf16{});
  } else if (dtype == DType::F16) {
    body(f16{});
  } else {
    body(float{});
  }
}

}  // namespace trireme::TRIREME_ISA
