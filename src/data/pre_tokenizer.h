#pragma once

#include <cstddef>
#include <string_view>

namespace trireme {

// GPT-2's pre-tokenizer: the words that byte-pair encoding never merges across. The first match of
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// at the start of a text that is not empty, in bytes. A byte that is not UTF-8 counts as a
// character that is neither letter, number nor space. Words joined together are the text.
size_t first_word_bytes(std::string_view text);

// A late place where a text may be cut such that its words are those of the part before and those
// of the part after, whatever comes after the text: before a space that follows something else, or
// before an Other that follows a letter or number. 0: there is none.
size_t last_word_split(std::string_view text);

}  // namespace trireme
