#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/dtype.h"

// 16 lanes as two ymm registers. Included only by simd.h.
namespace trireme::TRIREME_ISA {

struct F32x16 {
  __m256 low, high;
};
struct U32x16 {
  __m256i low, high;
};
struct Mask16 {  // all ones or all zeros in a lane
  __m256i low, high;
};

alignas(64) constexpr int32_t kTailMask[48] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                               -1, -1, -1, -1, -1, -1, -1, -1};
// The first n lanes, 0 <= n <= 16, at the end of a row.
struct FirstLanes {
  int64_t n;
  TRIREME_INLINE __m256i low() const { return half(16 - n); }
  TRIREME_INLINE __m256i high() const { return half(24 - n); }
  TRIREME_INLINE static __m256i half(int64_t skip) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kTailMask + skip));
  }
};

TRIREME_INLINE F32x16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
TRIREME_INLINE F32x16 zeros() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
TRIREME_INLINE U32x16 broadcast_u32(uint32_t x) {
  return {_mm256_set1_epi32(int32_t(x)), _mm256_set1_epi32(int32_t(x))};
}

TRIREME_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
TRIREME_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
TRIREME_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
TRIREME_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
// a b + c and c - a b, rounded once.
TRIREME_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
TRIREME_INLINE F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
// Returns b if one of the two is NaN.
TRIREME_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
TRIREME_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
TRIREME_INLINE F32x16 sqrt(F32x16 x) { return {_mm256_sqrt_ps(x.low), _mm256_sqrt_ps(x.high)}; }
TRIREME_INLINE F32x16 round_to_integer(F32x16 x) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.low, kMode), _mm256_round_ps(x.high, kMode)};
}

TRIREME_INLINE __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
TRIREME_INLINE __m256 scale_half(__m256 x, __m256 n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  return _mm256_mul_ps(_mm256_mul_ps(x, power_of_two(half)),
                       power_of_two(_mm256_sub_epi32(whole, half)));
}
// Returns x 2^n for an integral n in [-252, 254], in two steps, of which the first is exact for |x|
// near 1.
TRIREME_INLINE F32x16 scale_by_power_of_two(F32x16 x, F32x16 n) {
  return {scale_half(x.low, n.low), scale_half(x.high, n.high)};
}

TRIREME_INLINE Mask16 mask_of(__m256 low, __m256 high) {
  return {_mm256_castps_si256(low), _mm256_castps_si256(high)};
}
TRIREME_INLINE Mask16 operator<(F32x16 a, F32x16 b) {
  return mask_of(_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ),
                 _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ));
}
TRIREME_INLINE Mask16 operator<=(F32x16 a, F32x16 b) {
  return mask_of(_mm256_cmp_ps(a.low, b.low, _CMP_LE_OQ),
                 _mm256_cmp_ps(a.high, b.high, _CMP_LE_OQ));
}
TRIREME_INLINE Mask16 is_nan(F32x16 x) {
  return mask_of(_mm256_cmp_ps(x.low, x.low, _CMP_UNORD_Q),
                 _mm256_cmp_ps(x.high, x.high, _CMP_UNORD_Q));
}
TRIREME_INLINE F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) {
  return {_mm256_blendv_ps(no.low, yes.low, _mm256_castsi256_ps(mask.low)),
          _mm256_blendv_ps(no.high, yes.high, _mm256_castsi256_ps(mask.high))};
}
TRIREME_INLINE U32x16 select(Mask16 mask, U32x16 yes, U32x16 no) {
  return {_mm256_blendv_epi8(no.low, yes.low, mask.low),
          _mm256_blendv_epi8(no.high, yes.high, mask.high)};
}

TRIREME_INLINE U32x16 bits_of(F32x16 x) {
  return {_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)};
}
TRIREME_INLINE F32x16 from_bits(U32x16 x) {
  return {_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(x.high)};
}
// The integers must be in the range of int32.
TRIREME_INLINE F32x16 to_float(U32x16 x) {
  return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)};
}
TRIREME_INLINE U32x16 operator+(U32x16 a, U32x16 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
TRIREME_INLINE U32x16 operator-(U32x16 a, U32x16 b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
TRIREME_INLINE U32x16 operator^(U32x16 a, U32x16 b) {
  return {_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
}
TRIREME_INLINE U32x16 xor_of(U32x16 a, U32x16 b, U32x16 c) { return a ^ b ^ c; }
TRIREME_INLINE U32x16 operator&(U32x16 a, U32x16 b) {
  return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}
TRIREME_INLINE U32x16 operator|(U32x16 a, U32x16 b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
TRIREME_INLINE U32x16 operator>>(U32x16 a, int n) {
  return {_mm256_srli_epi32(a.low, n), _mm256_srli_epi32(a.high, n)};
}
TRIREME_INLINE U32x16 operator<<(U32x16 a, int n) {
  return {_mm256_slli_epi32(a.low, n), _mm256_slli_epi32(a.high, n)};
}
TRIREME_INLINE U32x16 arithmetic_shift_right(U32x16 a, int n) {
  return {_mm256_srai_epi32(a.low, n), _mm256_srai_epi32(a.high, n)};
}
TRIREME_INLINE Mask16 operator==(U32x16 a, U32x16 b) {
  return {_mm256_cmpeq_epi32(a.low, b.low), _mm256_cmpeq_epi32(a.high, b.high)};
}
TRIREME_INLINE Mask16 operator<(U32x16 a, U32x16 b) {  // a signed comparison of shifted values
  const U32x16 top = broadcast_u32(0x80000000u);
  const U32x16 c = a ^ top, d = b ^ top;
  return {_mm256_cmpgt_epi32(d.low, c.low), _mm256_cmpgt_epi32(d.high, c.high)};
}

// Multiplies the even lanes to 64-bit products; each fills an even lane and the odd lane above it.
TRIREME_INLINE U32x16 multiply_even(U32x16 a, U32x16 b) {
  return {_mm256_mul_epu32(a.low, b.low), _mm256_mul_epu32(a.high, b.high)};
}
// Moves odd lanes to the even ones (the odd ones become 0), and back.
TRIREME_INLINE U32x16 odd_to_even(U32x16 a) {
  return {_mm256_srli_epi64(a.low, 32), _mm256_srli_epi64(a.high, 32)};
}
TRIREME_INLINE U32x16 even_to_odd(U32x16 a) {
  return {_mm256_slli_epi64(a.low, 32), _mm256_slli_epi64(a.high, 32)};
}
// The even lanes of `odd` become odd lanes.
TRIREME_INLINE U32x16 interleave_even(U32x16 even, U32x16 odd) {
  const U32x16 up = even_to_odd(odd);
  return {_mm256_blend_epi32(even.low, up.low, 0xaa), _mm256_blend_epi32(even.high, up.high, 0xaa)};
}

TRIREME_INLINE void transpose_half(__m256& a, __m256& b, __m256& c, __m256& d) {
  const __m256d ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
  const __m256d ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
  const __m256d cd_low = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
  const __m256d cd_high = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
  a = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, cd_low));
  b = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, cd_low));
  c = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, cd_high));
  d = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, cd_high));
}
// Transposes the 4 x 4 matrix of (vector, lane) in every block of four lanes.
TRIREME_INLINE void transpose_blocks(F32x16& a, F32x16& b, F32x16& c, F32x16& d) {
  transpose_half(a.low, b.low, c.low, d.low);
  transpose_half(a.high, b.high, c.high, d.high);
}

TRIREME_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
// Keeps x in registers for all that use it. Otherwise each of them may load it again.
TRIREME_INLINE void keep_in_registers(F32x16& x) { asm("" : "+x"(x.low), "+x"(x.high)); }
TRIREME_INLINE F32x16 load_int8(const int8_t* p) {
  const auto eight = [](const int8_t* bytes) TRIREME_INLINE_LAMBDA {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
  };
  return {_mm256_cvtepi32_ps(eight(p)), _mm256_cvtepi32_ps(eight(p + 8))};
}
TRIREME_INLINE F32x16 load(const float* p, FirstLanes lanes) {
  return {_mm256_maskload_ps(p, lanes.low()), _mm256_maskload_ps(p + 8, lanes.high())};
}
TRIREME_INLINE void store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.low);
  _mm256_storeu_ps(p + 8, x.high);
}
TRIREME_INLINE void store(float* p, F32x16 x, FirstLanes lanes) {
  _mm256_maskstore_ps(p, lanes.low(), x.low);
  _mm256_maskstore_ps(p + 8, lanes.high(), x.high);
}
TRIREME_INLINE U32x16 load(const uint32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
TRIREME_INLINE void store(uint32_t* p, U32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.high);
}
// Writes past the caches. p must be 64-byte aligned.
TRIREME_INLINE void store_streaming(float* p, F32x16 x) {
  _mm256_stream_ps(p, x.low);
  _mm256_stream_ps(p + 8, x.high);
}

// Returns the next `count` elements of two bytes in the low bits, 0 <= count < 4. It reads no other
// byte.
TRIREME_INLINE uint64_t load_at_most_3(const void* p, int64_t count) {
  const char* const from = static_cast<const char*>(p);
  uint32_t pair = 0;
  uint16_t last = 0;
  if ((count & 2) != 0) __builtin_memcpy(&pair, from, sizeof(pair));
  if ((count & 1) != 0) __builtin_memcpy(&last, from + (count & 2) * sizeof(last), sizeof(last));
  return pair | uint64_t{last} << 8 * (count & 2) * sizeof(last);
}
// Loads the next `count` elements of two bytes, 0 <= count <= 8; the other lanes are 0.
TRIREME_INLINE __m128i load_at_most_8(const void* p, int64_t count) {
  if (count == 8) return _mm_loadu_si128(static_cast<const __m128i*>(p));
  if (count < 4) return _mm_cvtsi64_si128(int64_t(load_at_most_3(p, count)));
  const char* const from = static_cast<const char*>(p);
  return _mm_insert_epi64(_mm_loadl_epi64(static_cast<const __m128i*>(p)),
                          int64_t(load_at_most_3(from + sizeof(uint64_t), count - 4)), 1);
}
// Loads the next `count` elements of two bytes, 0 <= count <= 16; the other lanes are 0.
template <typename T>
TRIREME_INLINE __m256i load_at_most_16(const T* p, int64_t count) {
  static_assert(sizeof(T) == 2);
  if (count <= 8) return _mm256_zextsi128_si256(load_at_most_8(p, count));
  return _mm256_set_m128i(load_at_most_8(p + 8, count - 8), load_at_most_8(p, 8));
}

TRIREME_INLINE F32x16 widen_bf16(__m256i x) {
  const __m256i low = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(x));
  const __m256i high = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
}
TRIREME_INLINE __m256i round_bf16(__m256 x) {  // into the low half of every lane; x must not be NaN
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
  return _mm256_srli_epi32(rounded, 16);
}
// A NaN keeps its upper half and becomes quiet.
TRIREME_INLINE __m256i quiet_or_round_bf16(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i quiet = _mm256_srli_epi32(_mm256_or_si256(u, _mm256_set1_epi32(0x400000)), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(round_bf16(x), quiet, nan);
}
TRIREME_INLINE __m256i narrow_bf16(F32x16 x) {
  __m256i low = round_bf16(x.low);
  __m256i high = round_bf16(x.high);
  const __m256 nan = _mm256_cmp_ps(x.low, x.high, _CMP_UNORD_Q);  // a NaN in either half
  if (_mm256_movemask_ps(nan) != 0) [[unlikely]] {
    low = quiet_or_round_bf16(x.low);
    high = quiet_or_round_bf16(x.high);
  }
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
}
TRIREME_INLINE F32x16 load(const bf16* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TRIREME_INLINE F32x16 load(const bf16* p, FirstLanes lanes) {
  return widen_bf16(load_at_most_16(p, lanes.n));
}
TRIREME_INLINE void store(bf16* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(x));
}
TRIREME_INLINE void store(bf16* p, F32x16 x, FirstLanes lanes) {
  alignas(32) uint16_t row[16];
  _mm256_store_si256(reinterpret_cast<__m256i*>(row), narrow_bf16(x));
  for (int64_t lane = 0; lane < lanes.n; ++lane) p[lane].bits = row[lane];
}
// Writes past the caches. p must be 32-byte aligned.
TRIREME_INLINE void store_streaming(bf16* p, F32x16 x) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(x));
}

TRIREME_INLINE F32x16 widen_f16(__m256i x) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))};
}
TRIREME_INLINE __m256i narrow_f16(F32x16 x) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return _mm256_set_m128i(_mm256_cvtps_ph(x.high, kMode), _mm256_cvtps_ph(x.low, kMode));
}
TRIREME_INLINE F32x16 load(const f16* p) {
  return widen_f16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TRIREME_INLINE F32x16 load(const f16* p, FirstLanes lanes) {
  return widen_f16(load_at_most_16(p, lanes.n));
}
TRIREME_INLINE void store(f16* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16(x));
}
TRIREME_INLINE void store(f16* p, F32x16 x, FirstLanes lanes) {
  alignas(32) uint16_t row[16];
  _mm256_store_si256(reinterpret_cast<__m256i*>(row), narrow_f16(x));
  for (int64_t lane = 0; lane < lanes.n; ++lane) p[lane].bits = row[lane];
}
TRIREME_INLINE void store_streaming(f16* p, F32x16 x) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), narrow_f16(x));
}

TRIREME_INLINE float first_lane(F32x16 x) { return _mm256_cvtss_f32(x.low); }
// Adds the eight upper lanes to the eight lower ones.
TRIREME_INLINE __m256 fold_sum(F32x16 x) { return _mm256_add_ps(x.low, x.high); }
TRIREME_INLINE __m256 fold_max(F32x16 x) { return _mm256_max_ps(x.low, x.high); }

struct F64x16 {
  __m256d part[4];
};
TRIREME_INLINE F64x16 zeros_f64() {
  return {{_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()}};
}
TRIREME_INLINE F64x16 operator+(F64x16 a, F64x16 b) {
  return {{_mm256_add_pd(a.part[0], b.part[0]), _mm256_add_pd(a.part[1], b.part[1]),
           _mm256_add_pd(a.part[2], b.part[2]), _mm256_add_pd(a.part[3], b.part[3])}};
}
TRIREME_INLINE __m256d add_square(__m256d sum, __m128 x) {
  const __m256d wide = _mm256_cvtps_pd(x);
  return _mm256_fmadd_pd(wide, wide, sum);
}
// sum + x^2 in double, in which the square of an fp32 is exact.
TRIREME_INLINE F64x16 add_square(F64x16 sum, F32x16 x) {
  return {{add_square(sum.part[0], _mm256_castps256_ps128(x.low)),
           add_square(sum.part[1], _mm256_extractf128_ps(x.low, 1)),
           add_square(sum.part[2], _mm256_castps256_ps128(x.high)),
           add_square(sum.part[3], _mm256_extractf128_ps(x.high, 1))}};
}
TRIREME_INLINE __m256d fold_sum(F64x16 x) {
  return _mm256_add_pd(_mm256_add_pd(x.part[0], x.part[2]), _mm256_add_pd(x.part[1], x.part[3]));
}

}  // namespace trireme::TRIREME_ISA
