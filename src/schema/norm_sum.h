#pragma once

#include <cstdint>
#include <span>

namespace trireme {

// How the squared gradient norm is summed over parameters and ranks, as 64-bit words.
enum class NormSum {
  Chunks,  // a double for each norm chunk, added in the order of the model
  Exact,   // one integer: the same sum wherever a parameter is cut
};

// The integer is a sum of squares of fp32 numbers in units of 2^-298, the square of the smallest
// fp32. It is stored as limbs of 32 bits, lowest first. A limb may have more bits until all limbs
// are joined, so ranks and threads can add in any order, up to 2^31 times. After the limbs comes
// the number of values that were not finite.
inline constexpr int kNormLimbs = 20;
inline constexpr int kExactNormWords = kNormLimbs + 1;
// words += sum 2^(2 exponent). `sum` is a sum of squares of 24-bit significands and `exponent`
// their biased fp32 exponent (1 .. 254; 255: not finite).
void add_squares(uint64_t sum, int exponent, std::span<int64_t, kExactNormWords> words);

// Returns the squared norm from the words of all ranks; NaN if a number was not finite.
double squared_norm_of(NormSum kind, std::span<const int64_t> words);

}  // namespace trireme
