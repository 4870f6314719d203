#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// Interprets the fuzzer's bytes as edits of valid files, so that the damage gets far, because the
// rest stays valid.
class Edits {
 public:
  Edits(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool done() const { return at_ >= size_; }
  uint8_t byte() { return done() ? 0 : data_[at_++]; }

  // Overwrites, inserts or removes some bytes, or truncates the content.
  void apply_one(std::string& content) {
    const uint8_t kind = byte();
    size_t offset = byte();
    offset = offset << 8 | byte();
    if (kind & 0x40) offset = offset << 8 | byte();
    // Counted from the end.
    if (kind & 0x80) offset = content.size() - offset % (content.size() + 1);
    offset %= content.size() + 1;
    const size_t count = 1 + byte() % 16;
    switch (kind % 4) {
      case 0:
        for (size_t i = offset; i < content.size() && i < offset + count; ++i) {
          content[i] = static_cast<char>(byte());
        }
        break;
      case 1:
        for (size_t i = 0; i < count; ++i) content.insert(offset + i, 1, static_cast<char>(byte()));
        break;
      case 2:
        content.erase(offset, count);
        break;
      default:
        content.resize(offset);
    }
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};
