#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Spells bytes as text as GPT-2 does, the form in which vocabularies are written. Bytes that are
// printable in Latin-1 are their own characters; the other 68 are U+0100 and up ("Ġ" is a space).
std::string spell_bytes(std::string_view bytes);
// Returns nullopt if a character of the text spells no byte.
std::optional<std::string> bytes_of_spelling(std::string_view text);

// Returns the byte of tokens 0 to 255: printable bytes come first.
uint8_t byte_of_rank(int rank);
uint8_t rank_of_byte(uint8_t byte);

}  // namespace trireme
