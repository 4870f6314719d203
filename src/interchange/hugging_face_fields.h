#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/input_limits.h"
#include "base/json_text.h"
#include "checkpoint/strict_json.h"

namespace trireme {

// Thrown for a valid setting that our models do not support.
struct UnsupportedSetting {
  std::string message;
};

// The values of an object. An absent value and null mean the same.
class HuggingFaceFields {
 public:
  explicit HuggingFaceFields(const nlohmann::json& object, std::string where = "")
      : where_(std::move(where)) {
    if (!object.is_object())
      throw strict_json::FieldError{where_.empty() ? "not an object" : where_ + ": not an object"};
    object_ = &object;
  }

  const nlohmann::json* find(const char* key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }
  bool has(const char* key) const { return object_->contains(key); }  // null, too
  int64_t count(const char* key, std::optional<int64_t> otherwise = {},
                int64_t greatest = limits::kWidth) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr && otherwise) return *otherwise;
    if (value == nullptr) throw strict_json::FieldError{"no key \"" + name(key) + "\""};
    if (!value->is_number_unsigned() || value->get<uint64_t>() > static_cast<uint64_t>(greatest)) {
      throw strict_json::FieldError{
          fmt::format("{}: {} is not an integer from 0 to {}", name(key), shown(*value), greatest)};
    }
    return static_cast<int64_t>(value->get<uint64_t>());
  }
  double number(const char* key, double otherwise) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number())
      throw strict_json::FieldError{name(key) + ": " + shown(*value) + " is not a number"};
    return value->get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean())
      throw strict_json::FieldError{name(key) + ": " + shown(*value) + " is not true or false"};
    return value->get<bool>();
  }
  std::string word(const char* key, const std::string& otherwise) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string())
      throw strict_json::FieldError{name(key) + ": " + shown(*value) + " is not a string"};
    return value->get<std::string>();
  }
  void refuse_flag(const char* key, bool refused, const char* what) const {
    if (flag(key, !refused) == refused) {
      throw UnsupportedSetting{
          fmt::format("{} = {}: {} is not supported", name(key), refused, what)};
    }
  }

 private:
  std::string name(const char* key) const { return where_.empty() ? key : where_ + "." + key; }
  static std::string shown(const nlohmann::json& value) {
    return ascii_json_text(value).substr(0, 80);
  }

  const nlohmann::json* object_ = nullptr;
  std::string where_;
};

}  // namespace trireme
