#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

// Internal to this folder: include it only from .cc files.
namespace trireme::strict_json {

// Thrown by the getters below. The parser function that calls them catches it and makes an Error,
// so that the code of a format with twenty fields stays readable.
struct FieldError {
  std::string message;  // such as "tensors.wte: no key \"dtype\""
};

// Parses a JSON text: valid UTF-8, no duplicate keys in an object, at most max_depth levels, within
// the limits of base/input_limits.h, and nothing but white space after it. Throws FieldError.
nlohmann::json parse(std::string_view text, int max_depth);

// Parses a text that is one object and visits its members one by one with visit("", name, value),
// so that the object is never in memory as a whole. A member named in `sections` is itself an
// object whose members are visited one by one: first visit("", section, {}), then visit(section,
// name, value). The visitor must check for duplicate names.
using Visit =
    std::function<void(const std::string& section, const std::string& name, nlohmann::json& value)>;
void for_each_member(std::string_view text, int max_depth, const std::vector<std::string>& sections,
                     const Visit& visit);
[[noreturn]] void refuse_twice(const std::string& key);

// `where` names the object in messages.
const nlohmann::json& member(const nlohmann::json& object, const char* key,
                             const std::string& where);
const nlohmann::json& object_member(const nlohmann::json& object, const char* key,
                                    const std::string& where);
std::string string_member(const nlohmann::json& object, const char* key, const std::string& where);
int64_t count_member(const nlohmann::json& object, const char* key, const std::string& where);
uint64_t hex_member(const nlohmann::json& object, const char* key, const std::string& where);
// Returns non-negative integers below 2^63.
std::vector<int64_t> counts(const nlohmann::json& array, const std::string& where);

}  // namespace trireme::strict_json
