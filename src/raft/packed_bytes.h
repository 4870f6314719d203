#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace trireme {

// Packs numbers in little-endian order and texts with their lengths into bytes. The metadata of a
// store have lengths of four bytes, the log and its messages lengths of eight.
class PackedWriter {
 public:
  template <std::integral T>
  PackedWriter& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  PackedWriter& text(std::string_view text) {
    number(uint32_t(text.size()));
    bytes_.append(text);
    return *this;
  }
  PackedWriter& long_text(std::string_view text) {
    number(int64_t(text.size()));
    bytes_.append(text);
    return *this;
  }
  // Appends bytes without their length.
  PackedWriter& raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }
  std::string take() {
    std::string taken;
    taken.swap(bytes_);
    return taken;
  }

 private:
  std::string bytes_;
};

// Reads what PackedWriter has packed. Bytes that end too early, or a length beyond its limit, make
// every later value zero or empty, and has_failed() true.
class PackedReader {
 public:
  explicit PackedReader(std::string_view bytes) : left_(bytes) {}

  template <std::integral T>
  T number() {
    T value{};
    const std::string_view bytes = take(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string text(size_t most_bytes) {
    const auto length = number<uint32_t>();
    if (length > most_bytes) has_failed_ = true;
    return std::string(take(length));
  }
  // The text is a part of the bytes that are read.
  std::string_view long_text() {
    const auto length = number<int64_t>();
    if (length < 0) has_failed_ = true;
    return take(size_t(length));
  }
  // Returns a number of items, each of which has at least so many bytes, so that no count can ask
  // for more memory than the bytes are worth.
  size_t count(size_t least_bytes_each) {
    const auto count = number<uint32_t>();
    if (count > left_.size() / least_bytes_each) has_failed_ = true;
    return has_failed_ ? 0 : count;
  }
  bool has_failed() const { return has_failed_; }
  // True if everything was read and nothing was missing.
  bool is_done() const { return !has_failed_ && left_.empty(); }

 private:
  std::string_view take(size_t length) {
    if (has_failed_ || length > left_.size()) {
      has_failed_ = true;
      return {};
    }
    const std::string_view bytes = left_.substr(0, length);
    left_.remove_prefix(length);
    return bytes;
  }

  std::string_view left_;
  bool has_failed_ = false;
};

}  // namespace trireme
