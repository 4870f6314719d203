#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/word_counts.h"

namespace trireme {

struct BpeTrainOptions {
  int64_t vocab_size = 50257;   // bytes, merges and <|endoftext|>; at least 257
  uint64_t min_pair_count = 2;  // pairs with fewer occurrences are not merged
  // Called from time to time with the number of merges made and wanted; may be empty.
  std::function<void(int64_t, int64_t)> progress;
};

// Repeatedly merges the pair of neighbouring tokens that is most frequent in the words. If pairs
// are equally frequent, the one with the smallest (left, right) is merged. The result depends only
// on the counts. It has fewer merges than wanted if no pair is frequent enough.
Result<BpeTokenizer> train_bpe(const WordCounts& words, const BpeTrainOptions& options);

}  // namespace trireme
