#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

// Philox4x32-10 (Salmon et al. 2011): a keyed bijection of 128-bit counters. A random number
// depends on what it is for, never on the order in which numbers are drawn.
using PhiloxCounter = std::array<uint32_t, 4>;

struct RngKey {
  uint64_t value = 0;
  friend bool operator==(RngKey, RngKey) = default;
};

inline PhiloxCounter philox(RngKey rng_key, PhiloxCounter counter) {
  uint32_t key0 = static_cast<uint32_t>(rng_key.value);
  uint32_t key1 = static_cast<uint32_t>(rng_key.value >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Returns the counter of element `element` of global sample `sample` at one site.
inline PhiloxCounter counter_of(uint64_t sample, uint64_t element) {
  return {static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32),
          static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)};
}

// Returns a number uniform in [0, 1) with 24 bits, which is exact in fp32.
inline float uniform_float(uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

// Returns the key of a named site: a parameter, a dropout, the data order.
RngKey rng_key(uint64_t seed, std::string_view site);

}  // namespace trireme
