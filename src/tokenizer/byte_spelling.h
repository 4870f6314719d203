#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// GPT-2's spelling of bytes as text, in which vocabularies are written: the bytes that Latin-1
// prints are their own characters, the other 68 are U+0100 and up ("Ġ" is a space).
std::string spell_bytes(std::string_view bytes);
// Absent when a character of the text spells no byte.
std::optional<std::string> bytes_of_spelling(std::string_view text);

// The order of the bytes as tokens 0 to 255: the printed ones first.
uint8_t byte_of_rank(int rank);
uint8_t rank_of_byte(uint8_t byte);

}  // namespace trireme
