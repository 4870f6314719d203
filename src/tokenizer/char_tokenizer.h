#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Returns a position, as late as possible, where a text may be cut between characters, whatever
// comes after it; 0 if there is none.
size_t last_char_split(std::string_view text);

// A tokenizer with a token per code point of its training text, in their order, and <|endoftext|>
// last. Bytes that are not UTF-8 are characters of their own (kInvalidByte + byte), so decoding is
// exact. A text with any other character is refused, because no token could restore it.
class CharTokenizer : public Tokenizer {
 public:
  // The alphabet has strictly increasing code points without surrogates, or kInvalidByte + 0x80 ..
  // 0xFF.
  static Result<CharTokenizer> make(std::vector<uint32_t> alphabet);

  std::string_view kind() const override { return "char"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(alphabet_.size()) + 1; }
  Status append_tokens(std::string_view text, WordCache& cache,
                       std::vector<int32_t>& tokens) const override;
  std::string_view piece(int32_t token) const override;
  size_t last_split(std::string_view text) const override { return last_char_split(text); }
  uint64_t hash() const override;
  std::string to_json() const override;

 private:
  CharTokenizer() = default;

  std::vector<uint32_t> alphabet_;
  std::vector<std::string> pieces_;
  std::unordered_map<uint32_t, int32_t> token_of_;
};

// Collects the characters of a text that arrives in pieces, each cut between characters.
class CharTrainer {
 public:
  CharTrainer();
  void add(std::string_view text);
  CharTokenizer train() const;

 private:
  std::vector<bool> met_;  // [code point or kInvalidByte + byte]
};

}  // namespace trireme
