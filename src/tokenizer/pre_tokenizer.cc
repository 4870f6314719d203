#include "tokenizer/pre_tokenizer.h"

#include <array>
#include <string>

#include "tokenizer/unicode.h"

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
  bool is_line_end = false;  // CR or LF
};

inline ClassedChar classify(std::string_view text, size_t position) {
  const uint8_t byte = static_cast<uint8_t>(text[position]);
  if (byte < 0x80) return {kAsciiClasses[byte], 1, byte == '\n' || byte == '\r'};
  const DecodedChar decoded = decode_utf8(text.substr(position));
  if (decoded.code_point >= kInvalidByte) return {CharClass::Other, 1};
  return {char_class(decoded.code_point), static_cast<size_t>(decoded.length)};
}

// Returns the character that ends at `end` > 0.
ClassedChar classify_before(std::string_view text, size_t end) {
  const size_t earliest = end < kGreatestCharBytes ? 0 : end - kGreatestCharBytes;
  for (size_t start = end; start-- > earliest;) {
    const ClassedChar candidate = classify(text.substr(0, end), start);
    if (candidate.length == end - start && candidate.length > 1) return candidate;
    if (!is_continuation(text[start])) break;  // no lead byte found so far
  }
  return classify(text.substr(end - 1, 1), 0);
}

// Returns the end of the run of characters of one class that includes `position`.
size_t run_end(std::string_view text, size_t position, CharClass char_class) {
  while (position < text.size()) {
    const ClassedChar next = classify(text, position);
    if (next.char_class != char_class) break;
    position += next.length;
  }
  return position;
}

// Returns the bytes of 's 't 're 've 'm 'll 'd at the start, or 0. The text begins with an
// apostrophe.
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

// \s+(?!\S)|\s+ : all spaces at the end of the text, else all except the last, but at least one.
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

size_t gpt2_word_bytes(std::string_view text) {
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

// Returns the bytes of (?i:'s|'t|'re|'ve|'m|'ll|'d) at the start, or 0. The text begins with an
// apostrophe.
size_t any_case_contraction_bytes(std::string_view text) {
  std::string lower(text.substr(0, 3));
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (const size_t bytes = contraction_bytes(lower); bytes > 0) return bytes;
  return lower == "'\xC5\xBF" ? 3 : 0;  // the long s is another case of s
}

size_t line_ends_end(std::string_view text, size_t position) {
  while (position < text.size() && (text[position] == '\n' || text[position] == '\r')) ++position;
  return position;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : spaces up to the last line end, if there is one.
size_t llama3_spaces_bytes(std::string_view text) {
  const std::string_view run = text.substr(0, run_end(text, 0, CharClass::Space));
  const size_t last_line_end = run.find_last_of("\r\n");
  return last_line_end != std::string_view::npos ? last_line_end + 1 : spaces_bytes(text);
}

// Takes at most three numbers.
size_t numbers_bytes(std::string_view text) {
  size_t end = 0;
  for (int count = 0; count < 3 && end < text.size(); ++count) {
    const ClassedChar next = classify(text, end);
    if (next.char_class != CharClass::Number) break;
    end += next.length;
  }
  return end;
}

size_t llama3_word_bytes(std::string_view text) {
  if (text[0] == '\'') {
    if (const size_t bytes = any_case_contraction_bytes(text); bytes > 0) return bytes;
  }
  const ClassedChar first = classify(text, 0);
  if (first.char_class == CharClass::Letter) return run_end(text, first.length, CharClass::Letter);
  if (first.char_class == CharClass::Number) return numbers_bytes(text);
  const bool has_second = first.length < text.size();
  const ClassedChar second = has_second ? classify(text, first.length) : ClassedChar{};
  if (has_second && !first.is_line_end && second.char_class == CharClass::Letter) {
    return run_end(text, first.length + second.length, CharClass::Letter);
  }
  if (first.char_class == CharClass::Other) {
    return line_ends_end(text, run_end(text, first.length, CharClass::Other));
  }
  if (text[0] == ' ' && has_second && second.char_class == CharClass::Other) {
    return line_ends_end(text, run_end(text, 1 + second.length, CharClass::Other));
  }
  return llama3_spaces_bytes(text);
}

bool is_letter_or_number(const ClassedChar& character) {
  return character.char_class == CharClass::Letter || character.char_class == CharClass::Number;
}

// True if no word contains both characters, whatever stands around them.
bool is_border(PreTokenizer pre_tokenizer, const ClassedChar& before, const ClassedChar& after) {
  const bool before_is_space = before.char_class == CharClass::Space;
  const bool after_is_space = after.char_class == CharClass::Space;
  if (pre_tokenizer == PreTokenizer::Gpt2) {
    return (!before_is_space && after_is_space) ||
           (is_letter_or_number(before) && after.char_class == CharClass::Other);
  }
  if (is_letter_or_number(before)) return after.char_class != before.char_class;
  if (before_is_space) return before.is_line_end && !after_is_space;
  return after_is_space && !after.is_line_end;
}

}  // namespace

std::string_view name_of(PreTokenizer pre_tokenizer) {
  return pre_tokenizer == PreTokenizer::Gpt2 ? "gpt2" : "llama3";
}

std::optional<PreTokenizer> pre_tokenizer_named(std::string_view name) {
  for (const PreTokenizer known : {PreTokenizer::Gpt2, PreTokenizer::Llama3}) {
    if (name == name_of(known)) return known;
  }
  return std::nullopt;
}

size_t first_word_bytes(std::string_view text, PreTokenizer pre_tokenizer) {
  return pre_tokenizer == PreTokenizer::Gpt2 ? gpt2_word_bytes(text) : llama3_word_bytes(text);
}

size_t last_word_split(std::string_view text, PreTokenizer pre_tokenizer) {
  if (text.size() < kGreatestCharBytes) return 0;
  // The last character may be incomplete, and then its class is not known.
  size_t split = text.size() - kGreatestCharBytes + 1;
  while (split > 0 && is_continuation(text[split])) --split;
  std::optional<ClassedChar> after;
  while (split > 0) {
    const ClassedChar before = classify_before(text, split);
    if (after && is_border(pre_tokenizer, before, *after)) return split;
    split -= before.length;
    after = before;
  }
  return 0;
}

}  // namespace trireme
