#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// Writes the wire format of protocol buffers, as far as event files need it.
class ProtoWriter {
 public:
  void varint(int field, uint64_t value) {
    key(field, 0);
    raw_varint(value);
  }
  void fixed64(int field, double value) {
    key(field, 1);
    raw(std::bit_cast<uint64_t>(value), 8);
  }
  void fixed32(int field, float value) {
    key(field, 5);
    raw(std::bit_cast<uint32_t>(value), 4);
  }
  // Appends a string, or a message that another writer has made.
  void bytes(int field, std::string_view value) {
    key(field, 2);
    raw_varint(value.size());
    text_ += value;
  }
  // Appends a packed repeated double.
  template <typename Values>
  void packed(int field, const Values& values) {
    key(field, 2);
    raw_varint(values.size() * 8);
    for (const double value : values) raw(std::bit_cast<uint64_t>(value), 8);
  }

  const std::string& text() const { return text_; }
  void clear() { text_.clear(); }  // keeps the allocated memory

 private:
  void key(int field, int wire_type) { raw_varint(uint64_t(field) << 3 | uint64_t(wire_type)); }
  void raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += char(value | 0x80);
    text_ += char(value);
  }
  void raw(uint64_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) text_ += char(value >> (8 * i));
  }

  std::string text_;
};

}  // namespace trireme
