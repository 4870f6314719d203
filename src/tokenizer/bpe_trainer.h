#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/word_counts.h"

namespace trireme {

struct BpeTrainOptions {
  int64_t vocab_size = 50257;   // bytes, merges and <|endoftext|>: at least 257
  uint64_t min_pair_count = 2;  // a pair that is met less often is not merged
  // Called now and then with the merges that are known and wanted; may be empty.
  std::function<void(int64_t, int64_t)> progress;
};

// Merges, again and again, the pair of neighbouring tokens that is most frequent in the words; of
// equally frequent pairs the one with the smallest (left, right). A function of the counts alone.
// There are fewer merges than wanted when no pair is frequent enough.
Result<BpeTokenizer> train_bpe(const WordCounts& words, const BpeTrainOptions& options);

}  // namespace trireme
