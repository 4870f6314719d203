#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tokenizer/bpe_tokenizer.h"

namespace trireme {

// A tokenizer as other programs write it: tokens spelled as GPT-2 spells bytes, merges as "a b".
struct SpelledTokenizer {
  std::vector<std::string> tokens;        // spelled, or the plain text of a special or added token
  std::vector<int32_t> special;           // ascending
  std::vector<AddedToken> added;          // ascending
  std::vector<StrippingToken> stripping;  // ascending
  std::vector<std::string> merges;
  bool whole_words = false;
  PreTokenizer pre_tokenizer = PreTokenizer::Gpt2;
  int32_t end_of_text = 0;
  std::optional<int32_t> begin_of_text;
  std::string post_processor;  // a JSON object, or empty
};

// A char tokenizer is refused (Infeasible), because it has no such form.
Result<SpelledTokenizer> spell(const Tokenizer& tokenizer);
Result<BpeTokenizer> tokenizer_of(const SpelledTokenizer& spelled);

}  // namespace trireme
