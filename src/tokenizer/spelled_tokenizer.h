#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tokenizer/bpe_tokenizer.h"

namespace trireme {

// A tokenizer as other programs write it: tokens spelled as GPT-2 spells bytes, merges as "a b".
struct SpelledTokenizer {
  std::vector<std::string> tokens;  // special tokens are not spelled
  std::vector<int32_t> special;     // ascending
  std::vector<std::string> merges;
  bool whole_words = false;
  PreTokenizer pre_tokenizer = PreTokenizer::Gpt2;
  int32_t end_of_text = 0;
};

// A char tokenizer is refused (Infeasible), because it has no such form.
Result<SpelledTokenizer> spell(const Tokenizer& tokenizer);
Result<BpeTokenizer> tokenizer_of(const SpelledTokenizer& spelled);

}  // namespace trireme
