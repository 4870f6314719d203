#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

struct SamplingOptions {
  double temperature = 0.8;  // 0: the most likely token
  int64_t top_k = 0;         // keep the k most likely; 0: all
  double top_p = 1.0;        // keep the fewest whose probabilities reach p
  uint64_t seed = 0;
};

// Draws tokens from logits. The draw of a position depends on the seed and the position alone.
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
