#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "interchange/gguf.h"

// Keys of a GGUF file, read and added one by one.
namespace trireme {

// Thrown by the functions that read keys.
struct KeyError {
  ErrorKind kind;
  std::string message;
};

inline const GgufValue* find_key(const GgufHeader& header, const std::string& key, bool required) {
  const GgufValue* value = header.find(key);
  if (value == nullptr && required) throw KeyError{ErrorKind::Damaged, "no key " + key};
  return value;
}

inline int64_t count_of(const GgufHeader& header, const std::string& key,
                        std::optional<int64_t> otherwise = {}) {
  const GgufValue* value = find_key(header, key, !otherwise);
  if (value == nullptr) return *otherwise;
  const auto* number = std::get_if<uint64_t>(&value->value);
  if (number == nullptr || *number > uint64_t{1} << 24)
    throw KeyError{ErrorKind::Damaged, key + " is not a count below 2^24"};
  return static_cast<int64_t>(*number);
}

// Reads an F32 as the shortest decimal number that rounds to it: 1e-05, not 9.99999974e-06.
inline double real_of(const GgufHeader& header, const std::string& key,
                      std::optional<double> otherwise = {}) {
  const GgufValue* value = find_key(header, key, !otherwise);
  if (value == nullptr) return *otherwise;
  const auto* number = std::get_if<double>(&value->value);
  if (number == nullptr) throw KeyError{ErrorKind::Damaged, key + " is not a real number"};
  if (value->type == GgufType::F64) return *number;
  return std::strtod(fmt::format("{}", static_cast<float>(*number)).c_str(), nullptr);
}

inline std::string word_of(const GgufHeader& header, const std::string& key) {
  const GgufValue* value = find_key(header, key, true);
  const auto* text = std::get_if<std::string>(&value->value);
  if (text == nullptr) throw KeyError{ErrorKind::Damaged, key + " is not a string"};
  return *text;
}

// Adds keys that begin with the name of the architecture.
class KeyAdder {
 public:
  KeyAdder(GgufHeader& header, std::string name) : header_(header), name_(std::move(name)) {}

  void count(const char* key, int64_t value) { add(key, gguf_u32(uint64_t(value))); }
  void real(const char* key, double value) { add(key, gguf_f32(value)); }
  void flag(const char* key, bool value) { add(key, gguf_bool(value)); }
  void word(const char* key, std::string value) { add(key, gguf_string(std::move(value))); }

 private:
  void add(const char* key, GgufValue value) {
    header_.values.emplace_back(name_ + key, std::move(value));
  }

  GgufHeader& header_;
  std::string name_;
};

}  // namespace trireme
