#pragma once

#include "kernels/inline.h"

// Elementary functions in fp32, written once for F: the vectors of any instruction set, or one
// float. They use only correctly rounded operations and explicit fma, so every F gives the same
// bits. Polynomials are minimax fits on the stated interval.
namespace trireme {

// Returns c0 + c1 x + c2 x^2 + ...
template <typename F>
TRIREME_INLINE F polynomial(F x, float c0) {
  return splat(x, c0);
}
template <typename F, typename... Rest>
TRIREME_INLINE F polynomial(F x, float c0, Rest... rest) {
  return fma(polynomial(x, rest...), x, splat(x, c0));
}

// exp(x). The relative error is below 2e-7 + |x| 3e-9, denormal results included. Returns exactly 1
// for 0, 0 below -104, inf above 89, NaN for NaN.
template <typename F>
TRIREME_INLINE F exp_f32(F x) {
  x = max(splat(x, -104.0f), min(splat(x, 89.0f), x));  // min and max in this order keep a NaN
  const F n = round_to_integer(x * splat(x, 1.44269504f));
  // ln 2 as a single constant: its nearest fp32 is off by only 2e-9.
  const F r = fnma(n, splat(x, 0.693147182f), x);  // |r| <= ln 2 / 2
  const F p =
      polynomial(r, 1.0f, 1.0f, 4.999923110e-1f, 1.666711420e-1f, 4.189015552e-2f, 8.312519640e-3f);
  return scale_by_power_of_two(p, n);
}

// Natural logarithm of a finite normal x > 0.
template <typename F>
TRIREME_INLINE F log_f32(F x) {
  const auto bits = bits_of(x);
  // Takes the exponent for which the mantissa is in [sqrt(1/2), sqrt(2)).
  const auto shifted = bits - splat_bits(x, 0x3f3504f3u);
  const F exponent = to_float(arithmetic_shift_right(shifted, 23));
  const F mantissa = from_bits((shifted & splat_bits(x, 0x007fffffu)) + splat_bits(x, 0x3f3504f3u));
  const F f = mantissa - splat(x, 1.0f);
  const F tail = polynomial(f, 3.333331645e-1f, -2.500081062e-1f, 2.000228614e-1f, -1.662455499e-1f,
                            1.418119222e-1f, -1.312875152e-1f, 1.288164109e-1f, -7.859612256e-2f);
  const F square = f * f;
  F low = fma(exponent, splat(x, -2.12194440e-4f), square * (f * tail));
  low = fma(square, splat(x, -0.5f), low);
  return fma(exponent, splat(x, 0.693359375f), f + low);
}

// sin and cos of 2 pi turns, 0 <= turns < 1.
template <typename F>
TRIREME_INLINE void sin_cos_of_turns(F turns, F& sin, F& cos) {
  const F quarters = turns * splat(turns, 4.0f);
  const F quadrant = round_to_integer(quarters);
  const F f = quarters - quadrant;  // exact, in [-1/2, 1/2]
  const F g = f * f;
  const F s = f * polynomial(g, 1.570796371f, -6.459634900e-1f, 7.968022674e-2f, -4.602177069e-3f);
  const F c =
      polynomial(g, 1.0f, -1.233700514f, 2.536692321e-1f, -2.086029015e-2f, 9.040255682e-4f);
  // By quadrant 0 1 2 3 4 the result is (s, c), (c, -s), (-s, -c), (-c, s), (s, c).
  const auto q = bits_of(quadrant + splat(turns, 8388608.0f));  // its low bits are the quadrant
  const auto odd = (q & splat_bits(turns, 1u)) == splat_bits(turns, 1u);
  const auto sin_sign = (q & splat_bits(turns, 2u)) << 30;
  const auto cos_sign = ((q + splat_bits(turns, 1u)) & splat_bits(turns, 2u)) << 30;
  sin = from_bits(bits_of(select(odd, c, s)) ^ sin_sign);
  cos = from_bits(bits_of(select(odd, s, c)) ^ cos_sign);
}

template <typename F>
TRIREME_INLINE F sigmoid_f32(F x) {
  return splat(x, 1.0f) / (splat(x, 1.0f) + exp_f32(splat(x, 0.0f) - x));
}

// The cumulative distribution function of the standard normal distribution. The lower tail keeps
// its relative accuracy: erfc(z) = t exp(-z^2 + P(t)), t = 1 / (1 + z / 2).
template <typename F>
TRIREME_INLINE F normal_cdf_f32(F x) {
  const F z = abs(x) * splat(x, 0.707106781f);
  const F t = splat(x, 1.0f) / fma(z, splat(x, 0.5f), splat(x, 1.0f));
  const F p = polynomial(t, -1.265441418f, 9.984924793e-1f, 3.879001439e-1f, 2.835517004e-2f,
                         2.020167559e-2f, -1.167981848e-1f, -6.512356400e-1f, 1.122391462f,
                         -6.660590768e-1f, 1.421935260e-1f);  // 1/6 <= t <= 1
  const F tail = splat(x, 0.5f) * t * exp_f32(fnma(x * splat(x, 0.5f), x, p));
  return select(x < splat(x, 0.0f), tail, splat(x, 1.0f) - tail);
}

// Makes two independent standard normal numbers of two words (Box and Muller 1958), using 24 bits
// of each.
template <typename U, typename F>
TRIREME_INLINE void box_muller(U word0, U word1, F& first, F& second) {
  const F steps0 = to_float(word0 >> 8), steps1 = to_float(word1 >> 8);
  const F step = splat(steps0, 1.0f / 16777216.0f);
  const F u = fma(steps0, step, step);  // in (0, 1], so its logarithm is finite
  const F radius = sqrt(splat(u, -2.0f) * log_f32(u));
  F sin, cos;
  sin_cos_of_turns(steps1 * step, sin, cos);
  first = radius * cos;
  second = radius * sin;
}

}  // namespace trireme
