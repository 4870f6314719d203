#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Encodes texts in which the characters of a special token stand for that token, as in a chat
// template. From left to right, the longest special token at each place counts.
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
  // Special token at the start of `text`; null: none.
  const Special* find_at(std::string_view text) const;

  const Tokenizer& tokenizer_;
  std::vector<Special> special_[256];  // [first byte], the longest first
};

}  // namespace trireme
