#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "data/token_file.h"
#include "tokenizer/pair_table.h"

namespace trireme {

// A model that predicts from counts. A trained network is better only if it has learned more than
// which tokens are frequent and which follow each other.
class CountModel {
 public:
  // Counts training tokens until max_pairs distinct pairs (8M pairs need 0.3 GB) or max_tokens
  // tokens are counted.
  explicit CountModel(const TokenFile& train, int64_t max_pairs = int64_t{1} << 23,
                      int64_t max_tokens = INT64_MAX);

  int64_t num_tokens() const { return num_tokens_; }  // number of counted tokens

  // Both functions are positive and sum to one over all tokens.
  // The frequency of a token, with one added to each count.
  double unigram(int32_t token) const;
  // Kneser-Ney: the frequency after `previous`, interpolated with the number of distinct tokens
  // that this one follows.
  double bigram(int32_t previous, int32_t token) const;

 private:
  bool count_pair(int32_t left, int32_t right, int64_t max_pairs);
  void choose_discount();

  double vocab_size_;
  int64_t num_tokens_ = 0;
  std::vector<int64_t> counts_;        // by token
  std::vector<int64_t> left_counts_;   // by token: number of distinct pairs that it begins
  std::vector<int64_t> followers_;     // by token: distinct tokens after it
  std::vector<int64_t> predecessors_;  // by token: distinct tokens before it
  PairTable pairs_;                    // pair -> index in pair_counts_
  std::vector<uint32_t> pair_counts_;
  double discount_ = 0.5;
};

struct Baselines {
  double unigram_nats = 0.0;  // per token of the validation file, except the first
  double bigram_nats = 0.0;
  double unigram_bits_per_byte = 0.0;
  double bigram_bits_per_byte = 0.0;
  int64_t train_tokens = 0;  // number of counted tokens
};

// Returns the cross-entropies of a validation file under the counts of a training file. Reads at
// most max_tokens of each file. An error if the files have different tokenizers or the validation
// file has fewer than two tokens.
Result<Baselines> measure_baselines(const TokenFile& train, const TokenFile& val,
                                    int64_t max_tokens = INT64_MAX);

// Converts nats per token of a file to bits per byte of its text, which can be compared between
// tokenizers.
double bits_per_byte(double nats_per_token, const TokenFileHeader& header);

}  // namespace trireme
