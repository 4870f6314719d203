#pragma once

#include <cstdint>
#include <span>

namespace trireme {

// How the squared norm of the gradient is summed over parameters and ranks, as 64-bit words.
enum class NormSum {
  Chunks,  // a double for each norm chunk, added in the order of the model
  Exact,   // one integer: the same sum however a parameter is cut
};

// The integer: a sum of squares of fp32 numbers in units of 2^-298, the square of the smallest, as
// limbs of 32 bits from the lowest. A limb may have more bits until all are joined, so that ranks
// and threads add theirs in any order: 2^31 times. Behind them, how often numbers that are not
// finite were met.
inline constexpr int kNormLimbs = 20;
inline constexpr int kExactNormWords = kNormLimbs + 1;
// words += sum 2^(2 exponent), sum and exponent as of squares of significands of 24 bits and of the
// biased exponent of fp32 (1 .. 254; 255: not finite).
void add_squares(uint64_t sum, int exponent, std::span<int64_t, kExactNormWords> words);

// From the words of all ranks; NaN where a number was not finite.
double squared_norm_of(NormSum kind, std::span<const int64_t> words);

}  // namespace trireme
