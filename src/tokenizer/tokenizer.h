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

// The special token after every document, in our own tokenizers. Text never encodes to it.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// Text to tokens and back; immutable, used by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "byte", "char" or "bpe"
  virtual int64_t vocab_size() const = 0;     // with all special tokens
  // The special token after every document.
  virtual int32_t end_of_text() const { return static_cast<int32_t>(vocab_size() - 1); }

  // Ascending; text encodes to them only where that is asked for (special_tokens.h).
  virtual std::vector<int32_t> special_tokens() const { return {end_of_text()}; }

  // Appends the tokens of a text. The cache is one thread's memory of earlier words. Only a char
  // tokenizer refuses a text: when it has a character that its training text did not have.
  virtual Status append_tokens(std::string_view text, WordCache& cache,
                               std::vector<int32_t>& tokens) const = 0;
  // The bytes of a token; a character may be spread over several tokens.
  virtual std::string_view piece(int32_t token) const = 0;
  // A late place where a text may be cut such that its tokens are those of the parts, whatever
  // comes after the text; 0: there is none.
  virtual size_t last_split(std::string_view text) const = 0;

  // Names the tokenizer in token files and checkpoints: equal hashes, equal tokens.
  virtual uint64_t hash() const = 0;
  // docs/formats/tokenizer.md
  virtual std::string to_json() const = 0;

  Result<std::vector<int32_t>> encode(std::string_view text) const;
  // decode(encode(text)) == text for any bytes. Special tokens are written out.
  std::string decode(std::span<const int32_t> tokens) const;
};

// Our own tokenizer.json or that of Hugging Face.
Result<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view json);
// A tokenizer.json of either kind, or one of the files of foreign_tokenizer.h.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path);
Status save_tokenizer(const Tokenizer& tokenizer, const std::string& path);

}  // namespace trireme
