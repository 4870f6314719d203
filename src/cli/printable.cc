#include "cli/printable.h"

#include <fmt/format.h>

#include <ostream>

#include "tokenizer/unicode.h"

namespace trireme {
namespace {

bool is_direction_mark(uint32_t c) {
  return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

void append_printable(const DecodedChar& c, std::string_view bytes, std::string& out) {
  const uint32_t code = c.code_point;
  if (code >= kInvalidByte) {
    out += fmt::format("\\x{:02x}", code - kInvalidByte);
  } else if (code == '\n' || code == '\t') {
    out += bytes;
  } else if (code < 0x20 || code == 0x7F) {
    out += fmt::format("\\x{:02x}", code);
  } else if ((code >= 0x80 && code < 0xA0) || is_direction_mark(code)) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += bytes;
  }
}

// True if more bytes may follow to complete these last bytes of a piece as a character.
bool may_continue(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes.front());
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || bytes.size() >= length) return false;
  for (const char byte : bytes.substr(1)) {
    if (!is_continuation(byte)) return false;
  }
  return true;
}

// Returns the printable form of the text. A character that is cut off at the end goes to `rest`.
std::string take_printable(std::string_view text, std::string& rest) {
  std::string out;
  while (!text.empty()) {
    const DecodedChar c = decode_utf8(text);
    if (c.code_point >= kInvalidByte && may_continue(text)) break;
    append_printable(c, text.substr(0, size_t(c.length)), out);
    text.remove_prefix(size_t(c.length));
  }
  rest = text;
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string rest;
  std::string out = take_printable(text, rest);
  for (const char byte : rest) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return out;
}

PrintableBuffer::~PrintableBuffer() {
  const std::string last = printable(unfinished_);
  to_.sputn(last.data(), std::streamsize(last.size()));
  to_.pubsync();
}

void PrintableBuffer::pass(std::string_view sequence) {
  to_.sputn(sequence.data(), std::streamsize(sequence.size()));
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char byte = traits_type::to_char_type(c);
  return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
}

std::streamsize PrintableBuffer::xsputn(const char* text, std::streamsize size) {
  unfinished_.append(text, size_t(size));
  std::string rest;
  const std::string out = take_printable(unfinished_, rest);
  unfinished_ = std::move(rest);
  return to_.sputn(out.data(), std::streamsize(out.size())) == std::streamsize(out.size()) ? size
                                                                                           : 0;
}

int PrintableBuffer::sync() { return to_.pubsync(); }

void write_control(std::ostream& out, std::string_view sequence) {
  if (auto* printable = dynamic_cast<PrintableBuffer*>(out.rdbuf())) {
    printable->pass(sequence);
  } else {
    out << sequence;
  }
}

}  // namespace trireme
