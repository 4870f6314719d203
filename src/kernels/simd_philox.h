#pragma once

#include "base/philox.h"
#include "kernels/simd.h"

namespace trireme::TRIREME_ISA {

struct PhiloxWords {
  U32x16 word[4];
};

// philox() of base/philox.h on kVectors times 16 counters at once, because a single vector would
// wait for its own multiplications.
template <int kVectors>
TRIREME_INLINE void philox(RngKey key, PhiloxWords (&counters)[kVectors]) {
  // Even and odd lanes are kept apart, each value in the low half of 64 bits. The upper halves hold
  // garbage that the multiplication ignores, so a round needs no blends.
  constexpr int kStates = 2 * kVectors;
  U32x16 state[kStates][4];
#pragma GCC unroll 4
  for (int i = 0; i < kStates; ++i) {
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      const U32x16 lanes = counters[i / 2].word[w];
      state[i][w] = i % 2 == 0 ? lanes : odd_to_even(lanes);
    }
  }
  const U32x16 multiplier0 = broadcast_u32(0xD2511F53u), multiplier1 = broadcast_u32(0xCD9E8D57u);
  uint32_t key0 = uint32_t(key.value), key1 = uint32_t(key.value >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const U32x16 round_key0 = broadcast_u32(key0), round_key1 = broadcast_u32(key1);
#pragma GCC unroll 4
    for (int i = 0; i < kStates; ++i) {
      U32x16* const c = state[i];
      const U32x16 product0 = multiply_even(multiplier0, c[0]);
      const U32x16 product1 = multiply_even(multiplier1, c[2]);
      c[0] = xor_of(odd_to_even(product1), c[1], round_key0);
      c[2] = xor_of(odd_to_even(product0), c[3], round_key1);
      c[1] = product1;
      c[3] = product0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      counters[v].word[w] = interleave_even(state[2 * v][w], state[2 * v + 1][w]);
    }
  }
}

TRIREME_INLINE PhiloxWords philox(RngKey key, PhiloxWords counter) {
  PhiloxWords counters[1] = {counter};
  philox(key, counters);
  return counters[0];
}

// The words of kVectors times 16 consecutive groups of four elements of one sample. Lane 4 b + p of
// a vector holds its group b + 4 p, so that transpose_blocks puts the words of 64 elements in
// order.
template <int kVectors>
TRIREME_INLINE void philox_of_groups(RngKey key, uint64_t sample, uint64_t first_group,
                                     PhiloxWords (&words)[kVectors]) {
  alignas(64) static constexpr uint32_t kGroupOfLane[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                            2, 6, 10, 14, 3, 7, 11, 15};
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const uint64_t group = first_group + uint64_t(v) * 16;
    const U32x16 first = broadcast_u32(uint32_t(group));
    const U32x16 low = first + load(kGroupOfLane);
    const uint32_t high = uint32_t(group >> 32);
    const U32x16 carried = select(low < first, broadcast_u32(high + 1), broadcast_u32(high));
    words[v] = {
        {low, carried, broadcast_u32(uint32_t(sample)), broadcast_u32(uint32_t(sample >> 32))}};
  }
  philox(key, words);
}

// Writes the words of 128 consecutive elements of one sample, in order. first is a multiple of 4.
TRIREME_INLINE void words_of_elements(RngKey key, uint64_t sample, uint64_t first,
                                      uint32_t* words) {
  PhiloxWords of_groups[2];
  philox_of_groups(key, sample, first / 4, of_groups);
#pragma GCC unroll 2
  for (const PhiloxWords& vector : of_groups) {
    F32x16 a = from_bits(vector.word[0]), b = from_bits(vector.word[1]);
    F32x16 c = from_bits(vector.word[2]), d = from_bits(vector.word[3]);
    transpose_blocks(a, b, c, d);
    for (const F32x16& sixteen : {a, b, c, d}) {
      store(words, bits_of(sixteen));
      words += 16;
    }
  }
}

// The vector form of uniform_float() of base/philox.h.
TRIREME_INLINE F32x16 uniform_float(U32x16 words) {
  return to_float(words >> 8) * broadcast(1.0f / 16777216.0f);
}

}  // namespace trireme::TRIREME_ISA
