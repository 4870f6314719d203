#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/philox.h"
#include "data/token_source.h"

namespace trireme {

// Tokens with structure that can be learned, for runs without data: a noisy first-order Markov
// chain with a keyed transition table. Models first learn the frequent tokens, then the
// transitions.
class SyntheticSource : public TokenSource {
 public:
  // Samples of different splits ("train", "val") come from the same chain but share nothing else.
  SyntheticSource(uint64_t seed, int64_t vocab_size, std::string_view split = "train");

  int64_t vocab_size() const override { return vocab_size_; }
  void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override;

  // Nats per token that remain if the chain is known, averaged over the tokens as they occur.
  double entropy_rate() const;

 private:
  int32_t next_token(int32_t token, const PhiloxCounter& words) const;

  int64_t vocab_size_;
  RngKey sample_key_;
  std::vector<int32_t> successors_;  // [vocab_size][kNumSuccessors], most likely first
};

}  // namespace trireme
