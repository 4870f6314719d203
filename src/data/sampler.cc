#include "data/sampler.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"

namespace trireme {
namespace {

// More rounds than the four that make a Feistel network a strong permutation of a large set. Small
// sets with few bits per side need more rounds to be mixed well.
constexpr uint32_t kRounds = 8;

uint64_t low_bits(int bits) { return (uint64_t{1} << bits) - 1; }

// A keyed function of (half, round, epoch) with 32 bits, because a half is never wider.
uint64_t round_function(RngKey key, uint64_t half, uint32_t round, uint64_t epoch) {
  return philox(key, {static_cast<uint32_t>(half), round, static_cast<uint32_t>(epoch),
                      static_cast<uint32_t>(epoch >> 32)})[0];
}

}  // namespace

Sampler::Sampler(uint64_t seed, int64_t num_tokens, int64_t seq_len)
    : order_key_(rng_key(seed, "data.order")),
      offset_key_(rng_key(seed, "data.offset")),
      seq_len_(seq_len) {
  TRIREME_CHECK(seq_len >= 1, "seq_len is " + std::to_string(seq_len));
  TRIREME_CHECK(num_tokens > seq_len, std::to_string(num_tokens) + " tokens hold no window of " +
                                          std::to_string(seq_len) + " and one more");
  // Uses one window less than fits, so that every offset below seq_len leaves the same number of
  // windows.
  num_windows_ = std::max<int64_t>(1, num_tokens / seq_len - 1);
  num_offsets_ = std::min(seq_len, num_tokens - num_windows_ * seq_len);
  const int bits = std::bit_width(static_cast<uint64_t>(num_windows_ - 1));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
}

int64_t Sampler::first_token(uint64_t global_sample) const {
  const uint64_t num_windows = static_cast<uint64_t>(num_windows_);
  const uint64_t epoch = global_sample / num_windows;
  const PhiloxCounter words = philox(offset_key_, counter_of(epoch, 0));
  const uint64_t draw = (uint64_t{words[0]} << 32) | words[1];
  const int64_t offset = static_cast<int64_t>(draw % static_cast<uint64_t>(num_offsets_));
  return offset + static_cast<int64_t>(permute(global_sample % num_windows, epoch)) * seq_len_;
}

// A Feistel network permutes 2^bits >= num_windows numbers. Following the cycle until the number is
// below num_windows permutes the windows (less than two rounds on average).
uint64_t Sampler::permute(uint64_t index, uint64_t epoch) const {
  const uint64_t left_mask = low_bits(left_bits_);
  const uint64_t right_mask = low_bits(right_bits_);
  do {
    uint64_t left = index >> right_bits_;
    uint64_t right = index & right_mask;
    for (uint32_t round = 0; round < kRounds; round += 2) {
      left ^= round_function(order_key_, right, round, epoch) & left_mask;
      right ^= round_function(order_key_, left, round + 1, epoch) & right_mask;
    }
    index = (left << right_bits_) | right;
  } while (index >= static_cast<uint64_t>(num_windows_));
  return index;
}

}  // namespace trireme
