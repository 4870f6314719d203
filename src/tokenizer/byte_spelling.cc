#include "tokenizer/byte_spelling.h"

#include <array>

#include "tokenizer/unicode.h"

namespace trireme {
namespace {

constexpr uint32_t kFirstSubstitute = 0x100;

struct ByteOrder {
  std::array<uint8_t, 256> byte_of_rank{};
  std::array<uint8_t, 256> rank_of_byte{};
  int num_printed = 0;
};

constexpr ByteOrder kByteOrder = [] {
  ByteOrder order;
  int rank = 0;
  for (const bool printed : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_printed = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      if (is_printed != printed) continue;
      order.byte_of_rank[rank] = static_cast<uint8_t>(byte);
      order.rank_of_byte[byte] = static_cast<uint8_t>(rank);
      ++rank;
      order.num_printed += printed;
    }
  }
  return order;
}();

}  // namespace

uint8_t byte_of_rank(int rank) { return kByteOrder.byte_of_rank[rank]; }
uint8_t rank_of_byte(uint8_t byte) { return kByteOrder.rank_of_byte[byte]; }

std::string spell_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const uint8_t byte = static_cast<uint8_t>(c);
    const int rank = rank_of_byte(byte);
    const bool is_printed = rank < kByteOrder.num_printed;
    append_utf8(
        is_printed ? byte : kFirstSubstitute + static_cast<uint32_t>(rank - kByteOrder.num_printed),
        text);
  }
  return text;
}

std::optional<std::string> bytes_of_spelling(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const DecodedChar decoded = decode_utf8(text);
    text.remove_prefix(static_cast<size_t>(decoded.length));
    const uint32_t code_point = decoded.code_point;
    if (code_point < 256 &&
        rank_of_byte(static_cast<uint8_t>(code_point)) < kByteOrder.num_printed) {
      bytes += static_cast<char>(code_point);
    } else if (code_point >= kFirstSubstitute &&
               code_point - kFirstSubstitute <
                   static_cast<uint32_t>(256 - kByteOrder.num_printed)) {
      const int rank = kByteOrder.num_printed + static_cast<int>(code_point - kFirstSubstitute);
      bytes += static_cast<char>(byte_of_rank(rank));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

}  // namespace trireme
