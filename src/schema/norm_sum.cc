#include "schema/norm_sum.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace trireme {
namespace {

constexpr int kLimbBits = 32;
constexpr int64_t kLimbMask = (int64_t{1} << kLimbBits) - 1;
constexpr int kUnitExponent = -298;

double value_of(std::span<const int64_t> words) {
  if (words[kNormLimbs] != 0) return std::numeric_limits<double>::quiet_NaN();
  int64_t limbs[kNormLimbs];
  int64_t carry = 0;
  for (int i = 0; i < kNormLimbs; ++i) {
    carry += words[size_t(i)];
    limbs[i] = carry & kLimbMask;
    carry >>= kLimbBits;
  }
  double value = double(carry);
  for (int i = kNormLimbs - 1; i >= 0; --i) {
    value = std::ldexp(value, kLimbBits) + double(limbs[i]);
  }
  return std::ldexp(value, kUnitExponent);
}

}  // namespace

void add_squares(uint64_t sum, int exponent, std::span<int64_t, kExactNormWords> words) {
  if (exponent == 255) {
    words[kNormLimbs] += 1;
    return;
  }
  const int shift = 2 * exponent - 2;
  size_t limb = size_t(shift / kLimbBits);
  const int within = shift % kLimbBits;
  // Computes sum << within without a wider integer: the lowest limb, then the rest.
  words[limb] += int64_t(sum << within) & kLimbMask;
  uint64_t rest = sum >> (kLimbBits - within);
  for (; rest != 0; rest >>= kLimbBits) words[++limb] += int64_t(rest) & kLimbMask;
}

double squared_norm_of(NormSum kind, std::span<const int64_t> words) {
  if (kind == NormSum::Exact) {
    TRIREME_CHECK(words.size() == kExactNormWords, "the limbs of one integer");
    return value_of(words);
  }
  double sum = 0.0;
  for (const int64_t word : words) sum += std::bit_cast<double>(word);
  return sum;
}

}  // namespace trireme
