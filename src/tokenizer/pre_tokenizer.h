#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace trireme {

// How a text falls into the words that byte-pair encoding never merges across. Words joined
// together are the text. A byte that is not UTF-8 counts as a character that is neither letter,
// number nor space.
enum class PreTokenizer {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  Gpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  // \s*[\r\n]+|\s+(?!\S)|\s+
  Llama3,
};

std::string_view name_of(PreTokenizer pre_tokenizer);                    // "gpt2"
std::optional<PreTokenizer> pre_tokenizer_named(std::string_view name);  // absent: unknown

// Bytes of the first match at the start of a text that is not empty.
size_t first_word_bytes(std::string_view text, PreTokenizer pre_tokenizer = PreTokenizer::Gpt2);

// A late place where a text may be cut such that its words are those of the part before and those
// of the part after, whatever comes after the text; 0: there is none.
size_t last_word_split(std::string_view text, PreTokenizer pre_tokenizer = PreTokenizer::Gpt2);

}  // namespace trireme
