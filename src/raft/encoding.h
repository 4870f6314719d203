#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace trireme {

// Appends fixed-width integers, in little-endian order, and texts after their length.
class RecordEncoder {
 public:
  explicit RecordEncoder(std::string& bytes) : bytes_(bytes) {}
  void byte(uint8_t value) { bytes_.push_back(char(value)); }
  void u32(uint32_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void i64(int64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view text) {
    i64(int64_t(text.size()));
    bytes_ += text;
  }

 private:
  std::string& bytes_;
};

// Reads what an RecordEncoder has written. After a read past the end every value is 0 or empty, and
// is_ok() is false.
class RecordDecoder {
 public:
  explicit RecordDecoder(std::string_view bytes) : bytes_(bytes) {}
  uint8_t byte() { return value<uint8_t>(); }
  uint32_t u32() { return value<uint32_t>(); }
  int64_t i64() { return value<int64_t>(); }
  std::string_view text() {
    const int64_t length = i64();
    if (length < 0 || uint64_t(length) > bytes_.size()) return fail();
    const std::string_view text = bytes_.substr(0, size_t(length));
    bytes_.remove_prefix(size_t(length));
    return text;
  }
  bool is_ok() const { return is_ok_; }
  bool is_at_end() const { return is_ok_ && bytes_.empty(); }
  size_t left() const { return bytes_.size(); }

 private:
  template <typename T>
  T value() {
    T value{};
    if (bytes_.size() < sizeof value) {
      fail();
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view fail() {
    is_ok_ = false;
    bytes_ = {};
    return {};
  }

  std::string_view bytes_;
  bool is_ok_ = true;
};

}  // namespace trireme
