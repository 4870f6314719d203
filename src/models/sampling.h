#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace trireme {

struct SamplingOptions {
  double temperature = 0.8;  // 0: the most likely token
  int64_t top_k = 0;         // keep the k most likely; 0: all
  double top_p = 1.0;        // keep the fewest whose probabilities reach p
  uint64_t seed = 0;
};

// Refuses what no draw can mean; the message names the option.
Status check_sampling(const SamplingOptions& options);

// Draws tokens from logits: of the tokenizer's `vocab_size`, though a model may have rows for more.
// The draw of a position depends on the seed and the position alone.
class TokenSampler {
 public:
  TokenSampler(const SamplingOptions& options, int64_t vocab_size);
  int32_t sample(std::span<const float> logits, uint64_t position);

 private:
  SamplingOptions options_;
  std::vector<int32_t> order_;         // tokens, most likely first
  std::vector<double> probabilities_;  // of order_
};

}  // namespace trireme
