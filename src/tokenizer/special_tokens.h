#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/text_matches.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Encodes texts in which the characters of a special token stand for that token, as in a chat
// template. From left to right, the longest special token at each place counts, and takes the white
// space beside it with it if it is a StrippingToken.
class SpecialTokenEncoder {
 public:
  explicit SpecialTokenEncoder(const Tokenizer& tokenizer);

  // Appends the tokens of a whole text.
  Status append_tokens(std::string_view text, WordCache& cache, std::vector<int32_t>& tokens) const;

 private:
  const Tokenizer& tokenizer_;
  TextMatches special_;
};

}  // namespace trireme
