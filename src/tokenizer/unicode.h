#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// A code point, or a byte that is not part of valid UTF-8 (an overlong form, a surrogate, a value
// above U+10FFFF, a stray or missing continuation). Such a byte has the value kInvalidByte + byte
// and length 1.
struct DecodedChar {
  uint32_t code_point = 0;
  int length = 1;
};
inline constexpr uint32_t kInvalidByte = 0x110000;

constexpr bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// Decodes the first code point. The text must not be empty.
DecodedChar decode_utf8(std::string_view text);
void append_utf8(uint32_t code_point, std::string& text);

// The character classes that pre-tokenizers distinguish: \p{L}, \p{N}, White_Space, and the rest.
enum class CharClass : uint8_t { Other, Letter, Number, Space };
CharClass char_class(uint32_t code_point);  // as in Unicode 15.0

// Finds bytes that are not UTF-8 in a text that arrives in pieces.
class Utf8Check {
 public:
  explicit Utf8Check(int64_t offset = 0) : offset_(offset) {}  // of the first piece
  void add(std::string_view piece);
  void finish();  // an incomplete character at the end is invalid

  int64_t num_invalid() const { return num_invalid_; }
  int64_t first_invalid() const { return first_invalid_; }  // offset in the whole text; -1: none

 private:
  void scan(std::string_view text, bool is_last);

  std::string unfinished_;  // at most 3 bytes
  int64_t offset_;
  int64_t num_invalid_ = 0;
  int64_t first_invalid_ = -1;
};

}  // namespace trireme
