#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace trireme {

// How a text is split into words, across which byte-pair encoding never merges. The words joined
// together are the text. A byte that is not UTF-8 counts as a character that is neither letter,
// number nor space.
enum class PreTokenizer {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  Gpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  // \s*[\r\n]+|\s+(?!\S)|\s+
  Llama3,
};

std::string_view name_of(PreTokenizer pre_tokenizer);                    // such as "gpt2"
std::optional<PreTokenizer> pre_tokenizer_named(std::string_view name);  // nullopt: unknown

// Returns the length in bytes of the first match. The text must not be empty.
size_t first_word_bytes(std::string_view text, PreTokenizer pre_tokenizer = PreTokenizer::Gpt2);

// Returns a position, as late as possible, where a text may be cut so that the words of the two
// parts are the words of the text, whatever comes after it; 0 if there is none.
size_t last_word_split(std::string_view text, PreTokenizer pre_tokenizer = PreTokenizer::Gpt2);

}  // namespace trireme
