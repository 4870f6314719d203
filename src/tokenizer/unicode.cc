#include "tokenizer/unicode.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace trireme {
namespace {

// A run of code points of one class: the first code point in the high bits, the class in the low
// bits.
using Run = uint32_t;
constexpr int kClassBits = 2;
constexpr Run run(uint32_t first, CharClass char_class) {
  return (first << kClassBits) | static_cast<Run>(char_class);
}
constexpr Run L(uint32_t first) { return run(first, CharClass::Letter); }
constexpr Run N(uint32_t first) { return run(first, CharClass::Number); }
constexpr Run S(uint32_t first) { return run(first, CharClass::Space); }
constexpr Run O(uint32_t first) { return run(first, CharClass::Other); }

constexpr Run kRuns[] = {
#include "tokenizer/unicode_classes.inc"
};

// Returns the length of a sequence that starts with `lead`; 0 if it starts none.
int length_of(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation, or C0 and C1, which are always overlong
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

// True for the first bytes of a sequence whose end is missing.
bool is_unfinished(std::string_view text) {
  const int length = length_of(static_cast<uint8_t>(text[0]));
  return length > static_cast<int>(text.size()) &&
         std::all_of(text.begin() + 1, text.end(), is_continuation);
}

// Returns the length of the ASCII text at the start, checking eight bytes at a time.
size_t ascii_prefix(std::string_view text) {
  size_t length = 0;
  for (; length + 8 <= text.size(); length += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + length, sizeof word);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (length < text.size() && static_cast<uint8_t>(text[length]) < 0x80) ++length;
  return length;
}

}  // namespace

DecodedChar decode_utf8(std::string_view text) {
  const uint8_t lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const DecodedChar invalid{kInvalidByte + lead, 1};
  const int length = length_of(lead);
  if (length == 0 || text.size() < static_cast<size_t>(length)) return invalid;
  uint32_t code_point = lead & (0x7Fu >> length);
  for (int k = 1; k < length; ++k) {
    if (!is_continuation(text[k])) return invalid;
    code_point = (code_point << 6) | (static_cast<uint8_t>(text[k]) & 0x3Fu);
  }
  const bool overlong =
      (length == 3 && code_point < 0x800) || (length == 4 && code_point < 0x10000);
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (overlong || surrogate || code_point > 0x10FFFF) return invalid;
  return {code_point, length};
}

void append_utf8(uint32_t code_point, std::string& text) {
  const auto continuation = [&](int shift) {
    text += static_cast<char>(0x80 | ((code_point >> shift) & 0x3F));
  };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0 | (code_point >> 6));
    continuation(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0 | (code_point >> 12));
    continuation(6);
    continuation(0);
  } else {
    text += static_cast<char>(0xF0 | (code_point >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

CharClass char_class(uint32_t code_point) {
  const Run last_of_its_run = (code_point << kClassBits) | ((1u << kClassBits) - 1);
  const Run* next = std::upper_bound(std::begin(kRuns), std::end(kRuns), last_of_its_run);
  return static_cast<CharClass>(next[-1] & ((1u << kClassBits) - 1));
}

void Utf8Check::add(std::string_view piece) {
  while (!unfinished_.empty() && !piece.empty()) {
    unfinished_ += piece[0];
    piece.remove_prefix(1);
    if (is_unfinished(unfinished_)) continue;
    // The sequence is complete, or broken by its last byte, which may itself begin another one.
    const std::string pending = std::exchange(unfinished_, {});
    scan(pending, false);
  }
  if (unfinished_.empty()) scan(piece, false);
}

void Utf8Check::finish() { scan(std::exchange(unfinished_, {}), true); }

void Utf8Check::scan(std::string_view text, bool is_last) {
  while (true) {
    const size_t ascii = ascii_prefix(text);
    offset_ += static_cast<int64_t>(ascii);
    text.remove_prefix(ascii);
    if (text.empty()) return;
    if (!is_last && text.size() < 4 && is_unfinished(text)) {
      unfinished_ = text;
      return;
    }
    const DecodedChar next = decode_utf8(text);
    if (next.code_point >= kInvalidByte) {
      if (num_invalid_++ == 0) first_invalid_ = offset_;
    }
    offset_ += next.length;
    text.remove_prefix(next.length);
  }
}

}  // namespace trireme
