#include "coord/base64.h"

#include <cstdint>

namespace trireme {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_of(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) {
      word = word << 8 | (at + k < bytes.size() ? uint8_t(bytes[at + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += at + k <= bytes.size() ? kDigits[word >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

Result<std::string> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return damaged("a base64 text whose length is not a multiple of 4");
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += 4) {
    const bool is_last = at + 4 == text.size();
    const size_t padding = !is_last ? 0 : text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    uint32_t word = 0;
    for (size_t k = 0; k < 4; ++k) {
      const size_t digit = k < 4 - padding ? kDigits.find(text[at + k]) : 0;
      if (digit == std::string_view::npos) return damaged("a base64 text with another character");
      word = word << 6 | uint32_t(digit);
    }
    for (size_t k = 0; k < 3 - padding; ++k) bytes += char(word >> (16 - 8 * k) & 255);
  }
  return bytes;
}

}  // namespace trireme
