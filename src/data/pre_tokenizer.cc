#include "data/pre_tokenizer.h"

#include <array>

#include "data/unicode.h"

namespace trireme {
namespace {

constexpr std::array<CharClass, 128> kAsciiClasses = [] {
  std::array<CharClass, 128> classes{};
  for (int c = 0; c < 128; ++c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_space = c == ' ' || (c >= '\t' && c <= '\r');
    classes[c] = is_letter                ? CharClass::Letter
                 : (c >= '0' && c <= '9') ? CharClass::Number
                 : is_space               ? CharClass::Space
                                          : CharClass::Other;
  }
  return classes;
}();

constexpr size_t kGreatestCharBytes = 4;

struct ClassedChar {
  CharClass char_class = CharClass::Other;
  size_t length = 1;
};

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

inline ClassedChar classify(std::string_view text, size_t position) {
  const uint8_t byte = static_cast<uint8_t>(text[position]);
  if (byte < 0x80) return {kAsciiClasses[byte], 1};
  const DecodedChar decoded = decode_utf8(text.substr(position));
  if (decoded.code_point >= kInvalidByte) return {CharClass::Other, 1};
  return {char_class(decoded.code_point), static_cast<size_t>(decoded.length)};
}

// The character that ends at `end` > 0.
ClassedChar classify_before(std::string_view text, size_t end) {
  const size_t earliest = end < kGreatestCharBytes ? 0 : end - kGreatestCharBytes;
  for (size_t start = end; start-- > earliest;) {
    const ClassedChar candidate = classify(text.substr(0, end), start);
    if (candidate.length == end - start && candidate.length > 1) return candidate;
    if (!is_continuation(text[start])) break;  // no lead byte before this one
  }
  return classify(text.substr(end - 1, 1), 0);
}

// End of the run of characters of one class that includes `position`.
size_t run_end(std::string_view text, size_t position, CharClass char_class) {
  while (position < text.size()) {
    const ClassedChar next = classify(text, position);
    if (next.char_class != char_class) break;
    position += next.length;
  }
  return position;
}

// Bytes of 's 't 're 've 'm 'll 'd at the start, where the apostrophe is known to be; else 0.
size_t contraction_bytes(std::string_view text) {
  if (text.size() < 2) return 0;
  const char first = text[1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (text.size() < 3) return 0;
  const char second = text[2];
  const bool is_long = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                       (first == 'l' && second == 'l');
  return is_long ? 3 : 0;
}

// \s+(?!\S)|\s+ : all spaces at the end of the text, else all but the last, but at least one.
size_t spaces_bytes(std::string_view text) {
  size_t end = 0;
  size_t last_length = 0;
  while (end < text.size()) {
    const ClassedChar next = classify(text, end);
    if (next.char_class != CharClass::Space) {
      return end > last_length ? end - last_length : end;
    }
    last_length = next.length;
    end += next.length;
  }
  return end;
}

}  // namespace

size_t first_word_bytes(std::string_view text) {
  if (text[0] == '\'') {
    if (const size_t bytes = contraction_bytes(text); bytes > 0) return bytes;
  }
  const ClassedChar first = classify(text, 0);
  if (first.char_class != CharClass::Space) return run_end(text, first.length, first.char_class);
  if (text[0] == ' ' && text.size() > 1) {
    const ClassedChar second = classify(text, 1);
    if (second.char_class != CharClass::Space) {
      return run_end(text, 1 + second.length, second.char_class);
    }
  }
  return spaces_bytes(text);
}

size_t last_word_split(std::string_view text) {
  if (text.size() < kGreatestCharBytes) return 0;
  // The last character may be cut: its class is not known before the rest has come.
  size_t split = text.size() - kGreatestCharBytes + 1;
  while (split > 0 && is_continuation(text[split])) --split;
  CharClass after = CharClass::Letter;
  while (split > 0) {
    const ClassedChar before = classify_before(text, split);
    const bool ends_word = before.char_class != CharClass::Space && after == CharClass::Space;
    const bool ends_letters =
        (before.char_class == CharClass::Letter || before.char_class == CharClass::Number) &&
        after == CharClass::Other;
    if (ends_word || ends_letters) return split;
    split -= before.length;
    after = before.char_class;
  }
  return 0;
}

}  // namespace trireme
