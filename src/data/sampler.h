#pragma once

#include <cstdint>

#include "base/philox.h"

namespace trireme {

// The order in which windows of a token file are read: a keyed permutation of window numbers. An
// epoch reads every window once, in an order that is computed, not stored. Each epoch has another
// key and starts its windows at another token, so the borders between windows move.
// The number of the next global sample is the only state of a run, so it can resume anywhere and on
// any number of ranks.
class Sampler {
 public:
  // A window is seq_len inputs and the token after them, so num_tokens must be above seq_len.
  Sampler(uint64_t seed, int64_t num_tokens, int64_t seq_len);

  // Number of windows of one epoch.
  int64_t num_windows() const { return num_windows_; }
  int64_t seq_len() const { return seq_len_; }

  // Returns the first token of the window of a sample, in [0, num_tokens - seq_len).
  int64_t first_token(uint64_t global_sample) const;

 private:
  uint64_t permute(uint64_t index, uint64_t epoch) const;

  RngKey order_key_;
  RngKey offset_key_;
  int64_t seq_len_;
  int64_t num_windows_;
  int64_t num_offsets_;  // the first window of an epoch starts at a token in [0, num_offsets)
  int left_bits_;        // the permutation works on left_bits + right_bits >= log2(num_windows)
  int right_bits_;
};

}  // namespace trireme
