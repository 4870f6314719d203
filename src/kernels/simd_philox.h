#pragma once

#include "base/philox.h"
#include "kernels/simd.h"

namespace trireme::TRIREME_ISA {

struct PhiloxWords {
  U32x16 word[4];
};

// philox() of base/philox.h on 16 counters at once.
TRIREME_INLINE PhiloxWords philox(RngKey key, PhiloxWords counter) {
  // Even and odd lanes apart, each value in the low half of 64 bits: the upper halves hold garbage
  // that the multiplication ignores, so a round needs no blends.
  U32x16 even[4], odd[4];
  for (int i = 0; i < 4; ++i) even[i] = counter.word[i];
  for (int i = 0; i < 4; ++i) odd[i] = odd_to_even(counter.word[i]);
  const U32x16 multiplier0 = broadcast_u32(0xD2511F53u), multiplier1 = broadcast_u32(0xCD9E8D57u);
  uint32_t key0 = uint32_t(key.value), key1 = uint32_t(key.value >> 32);
  const auto round = [&](U32x16* c, U32x16 round_key0, U32x16 round_key1) TRIREME_INLINE_LAMBDA {
    const U32x16 product0 = multiply_even(multiplier0, c[0]);
    const U32x16 product1 = multiply_even(multiplier1, c[2]);
    c[0] = odd_to_even(product1) ^ c[1] ^ round_key0;
    c[2] = odd_to_even(product0) ^ c[3] ^ round_key1;
    c[1] = product1;
    c[3] = product0;
  };
#pragma GCC unroll 10
  for (int i = 0; i < 10; ++i) {
    const U32x16 round_key0 = broadcast_u32(key0), round_key1 = broadcast_u32(key1);
    round(even, round_key0, round_key1);
    round(odd, round_key0, round_key1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  PhiloxWords words;
  for (int i = 0; i < 4; ++i) words.word[i] = interleave_even(even[i], odd[i]);
  return words;
}

// The words of 16 consecutive groups of four elements of one sample. Lane 4 b + p holds group
// b + 4 p, so that transpose_blocks puts the 64 elements' words in order.
TRIREME_INLINE PhiloxWords philox_of_groups(RngKey key, uint64_t sample, uint64_t first_group) {
  alignas(64) static constexpr uint32_t kGroupOfLane[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                            2, 6, 10, 14, 3, 7, 11, 15};
  const U32x16 first = broadcast_u32(uint32_t(first_group));
  const U32x16 low = first + load(kGroupOfLane);
  const uint32_t high = uint32_t(first_group >> 32);
  const U32x16 carried = select(low < first, broadcast_u32(high + 1), broadcast_u32(high));
  return philox(key, {{low, carried, broadcast_u32(uint32_t(sample)),
                       broadcast_u32(uint32_t(sample >> 32))}});
}

// uniform_float() of base/philox.h.
TRIREME_INLINE F32x16 uniform_float(U32x16 words) {
  return to_float(words >> 8) * broadcast(1.0f / 16777216.0f);
}

}  // namespace trireme::TRIREME_ISA
