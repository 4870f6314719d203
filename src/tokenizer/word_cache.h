#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/word_table.h"

namespace trireme {

// Caches the tokens of words. Text repeats its words, and a lookup is many times faster than
// merging the bytes again. It is bounded: a full cache is cleared.
class WordCache {
 public:
  // Appends the tokens of a word. If they are not cached, merge(word, tokens) appends them.
  template <typename Merge>
  void append(std::string_view word, std::vector<int32_t>& tokens, Merge&& merge) {
    if (word.size() > kGreatestWordBytes) {
      merge(word, tokens);
      return;
    }
    if (words_.size() >= kMaxWords) clear();
    const uint32_t index = words_.find_or_add(word);
    if (index + 1 == begins_.size()) {
      merge(word, tokens_);
      begins_.push_back(static_cast<uint32_t>(tokens_.size()));
    }
    tokens.insert(tokens.end(), tokens_.begin() + begins_[index],
                  tokens_.begin() + begins_[index + 1]);
  }

 private:
  static constexpr size_t kGreatestWordBytes = 64;
  static constexpr uint32_t kMaxWords = 1 << 18;

  void clear() {
    words_.clear();
    tokens_.clear();
    begins_.assign(1, 0);
  }

  WordTable words_;
  std::vector<int32_t> tokens_;         // of all words, one after the other
  std::vector<uint32_t> begins_ = {0};  // [word] begin in tokens_, and the end of the last word
};

}  // namespace trireme
