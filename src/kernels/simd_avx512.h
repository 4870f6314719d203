#pragma once

#pragma GCC diagnostic push  // GCC 12 warns about its own _mm512_undefined_ps()
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

#include "base/dtype.h"

// 16 lanes as one zmm register. Included only by simd.h.
namespace trireme::TRIREME_ISA {

struct F32x16 {
  __m512 v;
};
struct U32x16 {
  __m512i v;
};
struct Mask16 {
  __mmask16 bits;
};

// The first n lanes, 0 <= n <= 16, at the end of a row.
struct FirstLanes {
  int64_t n;
  TRIREME_INLINE __mmask16 mask() const { return static_cast<__mmask16>((1u << n) - 1u); }
};

TRIREME_INLINE F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
TRIREME_INLINE F32x16 zeros() { return {_mm512_setzero_ps()}; }
TRIREME_INLINE U32x16 broadcast_u32(uint32_t x) { return {_mm512_set1_epi32(int32_t(x))}; }

TRIREME_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
TRIREME_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
TRIREME_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
TRIREME_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
// a b + c and c - a b, rounded once.
TRIREME_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
TRIREME_INLINE F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
// Returns b if one of the two is NaN.
TRIREME_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
TRIREME_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
TRIREME_INLINE F32x16 sqrt(F32x16 x) { return {_mm512_sqrt_ps(x.v)}; }
TRIREME_INLINE F32x16 round_to_integer(F32x16 x) {
  return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// Returns x 2^n for an integral n in [-252, 254], rounded once.
TRIREME_INLINE F32x16 scale_by_power_of_two(F32x16 x, F32x16 n) {
  return {_mm512_scalef_ps(x.v, n.v)};
}

TRIREME_INLINE Mask16 operator<(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
TRIREME_INLINE Mask16 operator<=(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
}
TRIREME_INLINE Mask16 is_nan(F32x16 x) { return {_mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q)}; }
TRIREME_INLINE F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) {
  return {_mm512_mask_blend_ps(mask.bits, no.v, yes.v)};
}
TRIREME_INLINE U32x16 select(Mask16 mask, U32x16 yes, U32x16 no) {
  return {_mm512_mask_blend_epi32(mask.bits, no.v, yes.v)};
}

TRIREME_INLINE U32x16 bits_of(F32x16 x) { return {_mm512_castps_si512(x.v)}; }
TRIREME_INLINE F32x16 from_bits(U32x16 x) { return {_mm512_castsi512_ps(x.v)}; }
// The integers must be in the range of int32.
TRIREME_INLINE F32x16 to_float(U32x16 x) { return {_mm512_cvtepi32_ps(x.v)}; }
TRIREME_INLINE U32x16 operator+(U32x16 a, U32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
TRIREME_INLINE U32x16 operator-(U32x16 a, U32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
TRIREME_INLINE U32x16 operator^(U32x16 a, U32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
TRIREME_INLINE U32x16 xor_of(U32x16 a, U32x16 b, U32x16 c) {
  return {_mm512_ternarylogic_epi32(a.v, b.v, c.v, 0x96)};
}
TRIREME_INLINE U32x16 operator&(U32x16 a, U32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
TRIREME_INLINE U32x16 operator|(U32x16 a, U32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
TRIREME_INLINE U32x16 operator>>(U32x16 a, int n) { return {_mm512_srli_epi32(a.v, n)}; }
TRIREME_INLINE U32x16 operator<<(U32x16 a, int n) { return {_mm512_slli_epi32(a.v, n)}; }
TRIREME_INLINE U32x16 arithmetic_shift_right(U32x16 a, int n) {
  return {_mm512_srai_epi32(a.v, n)};
}
TRIREME_INLINE Mask16 operator<(U32x16 a, U32x16 b) { return {_mm512_cmplt_epu32_mask(a.v, b.v)}; }
TRIREME_INLINE Mask16 operator==(U32x16 a, U32x16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }

// Multiplies the even lanes to 64-bit products; each fills an even lane and the odd lane above it.
TRIREME_INLINE U32x16 multiply_even(U32x16 a, U32x16 b) { return {_mm512_mul_epu32(a.v, b.v)}; }
// Moves odd lanes to the even ones (the odd ones become 0), and back.
TRIREME_INLINE U32x16 odd_to_even(U32x16 a) { return {_mm512_srli_epi64(a.v, 32)}; }
TRIREME_INLINE U32x16 even_to_odd(U32x16 a) { return {_mm512_slli_epi64(a.v, 32)}; }
// The even lanes of `odd` become odd lanes.
TRIREME_INLINE U32x16 interleave_even(U32x16 even, U32x16 odd) {
  return {_mm512_mask_blend_epi32(0xaaaa, even.v, even_to_odd(odd).v)};
}

// Transposes the 4 x 4 matrix of (vector, lane) in every block of four lanes.
TRIREME_INLINE void transpose_blocks(F32x16& a, F32x16& b, F32x16& c, F32x16& d) {
  const __m512d ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a.v, b.v));
  const __m512d ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a.v, b.v));
  const __m512d cd_low = _mm512_castps_pd(_mm512_unpacklo_ps(c.v, d.v));
  const __m512d cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c.v, d.v));
  a.v = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, cd_low));
  b.v = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, cd_low));
  c.v = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high));
  d.v = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high));
}

TRIREME_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
// Keeps x in a register for all that use it. Otherwise each of them may load it again.
TRIREME_INLINE void keep_in_registers(F32x16& x) { asm("" : "+v"(x.v)); }
TRIREME_INLINE F32x16 load_int8(const int8_t* p) {
  return {_mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
TRIREME_INLINE F32x16 load(const float* p, FirstLanes lanes) {
  return {_mm512_maskz_loadu_ps(lanes.mask(), p)};
}
TRIREME_INLINE void store(float* p, F32x16 x) { _mm512_storeu_ps(p, x.v); }
TRIREME_INLINE void store(float* p, F32x16 x, FirstLanes lanes) {
  _mm512_mask_storeu_ps(p, lanes.mask(), x.v);
}
TRIREME_INLINE U32x16 load(const uint32_t* p) { return {_mm512_loadu_si512(p)}; }
TRIREME_INLINE void store(uint32_t* p, U32x16 x) { _mm512_storeu_si512(p, x.v); }
// Writes past the caches. p must be 64-byte aligned.
TRIREME_INLINE void store_streaming(float* p, F32x16 x) { _mm512_stream_ps(p, x.v); }

// Word i of x becomes the upper half of lane i, with one shuffle.
TRIREME_INLINE F32x16 widen_bf16(__m256i x) {
  const __m512i word_of_half = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8,
                                                0, 7, 0, 6, 0, 5, 0, 4, 0, 3, 0, 2, 0, 1, 0, 0, 0);
  const __m512i words = _mm512_castsi256_si512(x);
  return {_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, word_of_half, words))};
}
TRIREME_INLINE __m256i round_to_bf16_by_integers(F32x16 x) {
  const __m512i u = _mm512_castps_si512(x.v);
  const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
  __m512i rounded = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
  rounded = _mm512_mask_add_epi32(rounded, odd, rounded, _mm512_set1_epi32(1));
  rounded = _mm512_mask_or_epi32(rounded, is_nan(x).bits, u, _mm512_set1_epi32(0x400000));
  const __m512i upper_halves = _mm512_castsi256_si512(
      _mm256_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1));
  return _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper_halves, rounded));
}
TRIREME_INLINE __m256i narrow_bf16(F32x16 x) {
#if defined(__AVX512BF16__)
  // The instruction rounds like base/dtype.h but treats denormals as zeros, so vectors with
  // denormals, which are rare, take another path.
  constexpr int kDenormal = 0x20;
  if (_mm512_fpclass_ps_mask(x.v, kDenormal) == 0) [[likely]]
    return (__m256i)_mm512_cvtneps_pbh(x.v);
#endif
  return round_to_bf16_by_integers(x);
}
TRIREME_INLINE F32x16 load(const bf16* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TRIREME_INLINE F32x16 load(const bf16* p, FirstLanes lanes) {
  return widen_bf16(_mm256_maskz_loadu_epi16(lanes.mask(), p));
}
TRIREME_INLINE void store(bf16* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(x));
}
TRIREME_INLINE void store(bf16* p, F32x16 x, FirstLanes lanes) {
  _mm256_mask_storeu_epi16(p, lanes.mask(), narrow_bf16(x));
}
// Writes past the caches. p must be 32-byte aligned.
TRIREME_INLINE void store_streaming(bf16* p, F32x16 x) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(x));
}

TRIREME_INLINE F32x16 widen_f16(__m256i x) { return {_mm512_cvtph_ps(x)}; }
TRIREME_INLINE __m256i narrow_f16(F32x16 x) {
  return _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
TRIREME_INLINE F32x16 load(const f16* p) {
  return widen_f16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TRIREME_INLINE F32x16 load(const f16* p, FirstLanes lanes) {
  return widen_f16(_mm256_maskz_loadu_epi16(lanes.mask(), p));
}
TRIREME_INLINE void store(f16* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16(x));
}
TRIREME_INLINE void store(f16* p, F32x16 x, FirstLanes lanes) {
  _mm256_mask_storeu_epi16(p, lanes.mask(), narrow_f16(x));
}
TRIREME_INLINE void store_streaming(f16* p, F32x16 x) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), narrow_f16(x));
}

TRIREME_INLINE float first_lane(F32x16 x) { return _mm512_cvtss_f32(x.v); }
// Adds the eight upper lanes to the eight lower ones.
TRIREME_INLINE __m256 fold_sum(F32x16 x) {
  return _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
}
TRIREME_INLINE __m256 fold_max(F32x16 x) {
  return _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
}

struct F64x16 {
  __m512d low, high;
};
TRIREME_INLINE F64x16 zeros_f64() { return {_mm512_setzero_pd(), _mm512_setzero_pd()}; }
TRIREME_INLINE F64x16 operator+(F64x16 a, F64x16 b) {
  return {_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)};
}
// sum + x^2 in double, in which the square of an fp32 is exact.
TRIREME_INLINE F64x16 add_square(F64x16 sum, F32x16 x) {
  const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x.v));
  const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1));
  return {_mm512_fmadd_pd(low, low, sum.low), _mm512_fmadd_pd(high, high, sum.high)};
}
TRIREME_INLINE __m256d fold_sum(F64x16 x) {
  const __m512d eight = _mm512_add_pd(x.low, x.high);
  return _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
}

}  // namespace trireme::TRIREME_ISA
