#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Encodes texts in which the characters of a special token stand for that token, as in a chat
// template: at every place the longest one counts, from left to right.
class SpecialTokenEncoder {
 public:
  explicit SpecialTokenEncoder(const Tokenizer& tokenizer);

  // Appends the tokens of a whole text.
  Status append_tokens(std::string_view text, WordCache& cache, std::vector<int32_t>& tokens) const;

 private:
  struct Special {
    std::string text;
    int32_t token = 0;
  };
  const Special* find_at(std::string_view text) const;  // at its start; null: none

  const Tokenizer& tokenizer_;
  std::vector<Special> special_[256];  // by first byte, the longest first
};

}  // namespace trireme
