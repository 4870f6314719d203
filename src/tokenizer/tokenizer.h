#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/word_cache.h"

namespace trireme {

// The special token after every document, in our own tokenizers. Text is never encoded to it.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// A token whose text becomes this token wherever it occurs, such as a run of spaces. Added tokens
// are searched for before the text is split into words.
struct AddedToken {
  int32_t token = 0;
  bool is_first = false;  // searched for before the other added tokens, together with special ones
  friend bool operator==(AddedToken, AddedToken) = default;
};

// A special token that takes the white space beside its text with it: lstrip that to its left,
// rstrip that to its right. This white space is in no token, so decoding cannot restore it.
struct StrippingToken {
  int32_t token = 0;
  bool lstrip = false;
  bool rstrip = false;
  friend bool operator==(StrippingToken, StrippingToken) = default;
};

// Converts text to tokens and back. It is immutable, and several threads may use it at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "byte", "char" or "bpe"
  virtual int64_t vocab_size() const = 0;     // includes all special tokens
  // The special token after every document.
  virtual int32_t end_of_text() const { return static_cast<int32_t>(vocab_size() - 1); }

  // Ascending. Text is encoded to them only on request (special_tokens.h).
  virtual std::vector<int32_t> special_tokens() const { return {end_of_text()}; }

  // Ascending. Those of the special tokens for which lstrip or rstrip is true.
  virtual std::vector<StrippingToken> stripping_tokens() const { return {}; }

  // Ascending. None of them is a special token.
  virtual std::vector<AddedToken> added_tokens() const { return {}; }

  // Appends the tokens of a text. Each thread has its own cache of words. Only a char tokenizer can
  // refuse a text: if it has a character that was not in the training text.
  virtual Status append_tokens(std::string_view text, WordCache& cache,
                               std::vector<int32_t>& tokens) const = 0;
  // The bytes of a token. A character may be spread over several tokens.
  virtual std::string_view piece(int32_t token) const = 0;
  // Returns a position, as late as possible, where a text may be cut so that its tokens are those
  // of the two parts, whatever comes after it; 0 if there is none.
  virtual size_t last_split(std::string_view text) const = 0;

  // Identifies the tokenizer in token files and checkpoints: equal hashes mean equal tokens.
  virtual uint64_t hash() const = 0;
  // The format is described in docs/formats/tokenizer.md.
  virtual std::string to_json() const = 0;

  Result<std::vector<int32_t>> encode(std::string_view text) const;
  // decode(encode(text)) == text for any bytes. Special tokens are written as their text.
  std::string decode(std::span<const int32_t> tokens) const;
};

// Parses our own tokenizer.json or that of Hugging Face.
Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view json);
// Loads a tokenizer.json of either kind, or one of the files of foreign_tokenizer.h.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path);
Status save_tokenizer(const Tokenizer& tokenizer, const std::string& path);

}  // namespace trireme
