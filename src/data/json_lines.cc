#include "data/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tokenizer/unicode.h"

namespace trireme {
namespace {

constexpr int kGreatestDepth = 200;  // of nested lists and objects, because the parser recurses
constexpr uint32_t kReplacement = 0xFFFD;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Parses one line from left to right. A function that returns false has found an error; error()
// describes it.
class JsonLine {
 public:
  JsonLine(std::string_view line, int64_t& num_replaced)
      : line_(line), num_replaced_(num_replaced) {}

  bool read(std::string_view field, std::string& text);
  Error error() const { return {ErrorKind::Damaged, error_}; }

 private:
  bool fail(std::string_view why) {
    if (error_.empty()) error_ = fmt::format("byte {}: {}", position_, why);
    return false;
  }
  char peek() const { return position_ < line_.size() ? line_[position_] : '\0'; }
  void skip_spaces();
  bool expect(char c);
  bool value(int depth);
  bool object_rest(int depth);
  bool list_rest(int depth);
  bool number();
  bool digits();
  bool word(std::string_view word);
  bool string(std::string* text);
  bool escape(std::string* text);
  bool hex4(uint32_t& value);
  bool unicode_escape(uint32_t& code_point);

  std::string_view line_;
  int64_t& num_replaced_;
  size_t position_ = 0;
  std::string error_;
};

bool JsonLine::read(std::string_view field, std::string& text) {
  const size_t text_begin = text.size();
  bool found = false;
  bool has_messages = false;
  std::vector<std::string> others;  // other string fields, named in the error message
  skip_spaces();
  if (!expect('{')) return false;
  skip_spaces();
  for (bool first = true; peek() != '}'; first = false) {
    if (!first && !expect(',')) return false;
    skip_spaces();
    std::string name;
    if (!string(&name)) return false;
    skip_spaces();
    if (!expect(':')) return false;
    skip_spaces();
    if (name == field) {
      text.resize(text_begin);
      if (peek() != '"') return fail(fmt::format("the field \"{}\" is not a string", field));
      if (!string(&text)) return false;
      found = true;
    } else {
      has_messages = has_messages || name == "messages";
      if (peek() == '"' && others.size() < 8) others.push_back('"' + name + '"');
      if (!value(1)) return false;
    }
    skip_spaces();
  }
  ++position_;
  skip_spaces();
  if (position_ < line_.size()) return fail("text after the end of the object");
  if (found) return true;
  const bool is_chat =
      std::find(others.begin(), others.end(), "\"completion\"") != others.end() || has_messages;
  return fail(fmt::format("no field \"{}\" (strings here: {}){}", field,
                          others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", ")),
                          is_chat ? "; `data prepare --format chat` reads conversations" : ""));
}

void JsonLine::skip_spaces() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n') ++position_;
}

bool JsonLine::expect(char c) {
  if (peek() != c || position_ >= line_.size()) return fail(fmt::format("expected '{}'", c));
  ++position_;
  return true;
}

bool JsonLine::value(int depth) {
  if (depth > kGreatestDepth) return fail("nested too deeply");
  switch (peek()) {
    case '{':
      return object_rest(depth);
    case '[':
      return list_rest(depth);
    case '"':
      return string(nullptr);
    case 't':
      return word("true");
    case 'f':
      return word("false");
    case 'n':
      return word("null");
    default:
      return number();
  }
}

bool JsonLine::object_rest(int depth) {
  ++position_;
  skip_spaces();
  for (bool first = true; peek() != '}'; first = false) {
    if (!first && !expect(',')) return false;
    skip_spaces();
    if (!string(nullptr)) return false;
    skip_spaces();
    if (!expect(':')) return false;
    skip_spaces();
    if (!value(depth + 1)) return false;
    skip_spaces();
  }
  return expect('}');
}

bool JsonLine::list_rest(int depth) {
  ++position_;
  skip_spaces();
  for (bool first = true; peek() != ']'; first = false) {
    if (!first && !expect(',')) return false;
    skip_spaces();
    if (!value(depth + 1)) return false;
    skip_spaces();
  }
  return expect(']');
}

bool JsonLine::word(std::string_view word) {
  if (line_.substr(position_, word.size()) != word) return fail("not a value");
  position_ += word.size();
  return true;
}

bool JsonLine::digits() {
  if (!is_digit(peek())) return fail("not a value");
  while (is_digit(peek())) ++position_;
  return true;
}

bool JsonLine::number() {
  if (peek() == '-') ++position_;
  if (peek() == '0') {
    ++position_;
  } else if (!digits()) {
    return false;
  }
  if (peek() == '.') {
    ++position_;
    if (!digits()) return false;
  }
  if (peek() == 'e' || peek() == 'E') {
    ++position_;
    if (peek() == '+' || peek() == '-') ++position_;
    if (!digits()) return false;
  }
  return true;
}

bool JsonLine::string(std::string* text) {
  if (!expect('"')) return false;
  while (true) {
    const size_t begin = position_;
    while (position_ < line_.size() && line_[position_] != '"' && line_[position_] != '\\' &&
           static_cast<uint8_t>(line_[position_]) >= 0x20) {
      ++position_;
    }
    if (text != nullptr) text->append(line_.substr(begin, position_ - begin));
    if (position_ >= line_.size()) return fail("the line ends in a string");
    if (line_[position_] == '"') break;
    if (line_[position_] != '\\') return fail("a control character in a string");
    if (!escape(text)) return false;
  }
  ++position_;
  return true;
}

bool JsonLine::escape(std::string* text) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  ++position_;
  uint32_t code_point = 0;
  if (peek() == 'u') {
    if (!unicode_escape(code_point)) return false;
  } else {
    const size_t which = kNames.find(peek());
    if (position_ >= line_.size() || which == std::string_view::npos) return fail("not an escape");
    code_point = static_cast<uint8_t>(kMeanings[which]);
    ++position_;
  }
  if (text != nullptr) append_utf8(code_point, *text);
  return true;
}

bool JsonLine::hex4(uint32_t& value) {
  ++position_;  // skips the u
  value = 0;
  for (int k = 0; k < 4; ++k, ++position_) {
    const char c = peek();
    const bool is_letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!is_digit(c) && !is_letter) return fail("\\u without four hexadecimal digits");
    value = value * 16 + static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return true;
}

bool JsonLine::unicode_escape(uint32_t& code_point) {
  if (!hex4(code_point)) return false;
  if (code_point < 0xD800 || code_point > 0xDFFF) return true;
  const bool is_high = code_point < 0xDC00;
  if (is_high && line_.substr(position_, 2) == "\\u") {
    const size_t second = position_;
    ++position_;
    uint32_t low = 0;
    if (!hex4(low)) return false;
    if (low >= 0xDC00 && low <= 0xDFFF) {
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
      return true;
    }
    position_ = second;  // a character of its own, not the second half of a pair
  }
  code_point = kReplacement;
  ++num_replaced_;
  return true;
}

}  // namespace

Status append_json_string(std::string_view line, std::string_view field, std::string& text,
                          int64_t& num_replaced) {
  const size_t text_begin = text.size();
  JsonLine json(line, num_replaced);
  if (json.read(field, text)) return Done{};
  text.resize(text_begin);
  return json.error();
}

}  // namespace trireme
