#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "base/philox.h"

namespace trireme {

// Rounds to one of the two bf16 beside x, so that the mean over all 16-bit `random` is x exactly: a
// number that lies a quarter of the way up is rounded up by a quarter of them. A bf16 stays what it
// is. (Gupta et al. 2015, stochastic rounding.)
inline bf16 round_stochastically(float x, uint32_t random) {
  bf16 rounded(x);
  if (!std::isnan(x)) {
    rounded.bits = static_cast<uint16_t>((std::bit_cast<uint32_t>(x) + (random & 0xffffu)) >> 16);
  }
  return rounded;
}

// Returns the random word of one element of a parameter in one update. `key` names the seed and the
// parameter.
inline uint32_t rounding_word(RngKey key, uint64_t update, uint64_t element) {
  return philox(key, counter_of(update, element / 4))[element % 4];
}

}  // namespace trireme
