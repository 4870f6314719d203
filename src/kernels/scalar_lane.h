#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/inline.h"

// One float with the operations of a vector, so that a reference kernel can use fp32_math.h: the
// same functions with the same bits as on any instruction set.
namespace trireme::scalar {

struct U32 {
  uint32_t v;
};
struct F32 {
  float v;
};

inline F32 splat(F32, float value) { return {value}; }
inline U32 splat_bits(F32, uint32_t value) { return {value}; }
inline F32 operator+(F32 a, F32 b) { return {a.v + b.v}; }
inline F32 operator-(F32 a, F32 b) { return {a.v - b.v}; }
inline F32 operator*(F32 a, F32 b) { return {a.v * b.v}; }
inline F32 operator/(F32 a, F32 b) { return {a.v / b.v}; }
inline F32 fma(F32 a, F32 b, F32 c) { return {std::fmaf(a.v, b.v, c.v)}; }
inline F32 fnma(F32 a, F32 b, F32 c) { return {std::fmaf(-a.v, b.v, c.v)}; }
// Returns b if one of the two is NaN.
inline F32 min(F32 a, F32 b) { return a.v < b.v ? a : b; }
inline F32 max(F32 a, F32 b) { return a.v > b.v ? a : b; }
inline F32 abs(F32 x) { return {std::fabs(x.v)}; }
inline bool operator<(F32 a, F32 b) { return a.v < b.v; }
// Returns x 2^n, rounded once.
inline F32 scale_by_power_of_two(F32 x, F32 n) { return {std::ldexp(x.v, int(n.v))}; }
inline F32 sqrt(F32 x) { return {std::sqrt(x.v)}; }
inline F32 round_to_integer(F32 x) { return {std::nearbyint(x.v)}; }
inline F32 select(bool mask, F32 yes, F32 no) { return mask ? yes : no; }

inline U32 bits_of(F32 x) { return {std::bit_cast<uint32_t>(x.v)}; }
inline F32 from_bits(U32 x) { return {std::bit_cast<float>(x.v)}; }
inline F32 to_float(U32 x) { return {float(int32_t(x.v))}; }
inline U32 operator+(U32 a, U32 b) { return {a.v + b.v}; }
inline U32 operator-(U32 a, U32 b) { return {a.v - b.v}; }
inline U32 operator^(U32 a, U32 b) { return {a.v ^ b.v}; }
inline U32 operator&(U32 a, U32 b) { return {a.v & b.v}; }
inline U32 operator>>(U32 a, int n) { return {a.v >> n}; }
inline U32 operator<<(U32 a, int n) { return {a.v << n}; }
inline U32 arithmetic_shift_right(U32 a, int n) { return {uint32_t(int32_t(a.v) >> n)}; }
inline bool operator==(U32 a, U32 b) { return a.v == b.v; }

}  // namespace trireme::scalar
