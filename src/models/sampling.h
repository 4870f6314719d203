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
  // Divides the logits above 0 of the last kRepeatTokens tokens, and multiplies those below 0; 1:
  // nothing changes.
  double repeat_penalty = 1.0;
};
inline constexpr int64_t kRepeatTokens = 64;

// Refuses what no draw can mean; the message names the option.
Status check_sampling(const SamplingOptions& options);

// Draws tokens from logits: of the tokenizer's `vocab_size`, though a model may have rows for more.
// The draw of a position depends on the seed, the position and, with a penalty, the tokens before
// it.
class TokenSampler {
 public:
  TokenSampler(const SamplingOptions& options, int64_t vocab_size);
  int32_t sample(std::span<const float> logits, uint64_t position);
  // Tells the sampler of tokens of the context, in their order, also of those that it has drawn.
  void note(std::span<const int32_t> tokens);

 private:
  std::span<const float> penalized(std::span<const float> logits);

  SamplingOptions options_;
  std::vector<int32_t> recent_;        // the last kRepeatTokens of the context
  std::vector<float> penalized_;       // empty without a penalty
  std::vector<int32_t> order_;         // tokens, most likely first
  std::vector<double> probabilities_;  // of order_
};

}  // namespace trireme
