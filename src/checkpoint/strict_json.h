#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

// Internal to this folder: include it from .cc files only.
namespace trireme::strict_json {

// Thrown by the getters below and caught by the one parser function that calls them, which turns it
// into an Error: a format of twenty fields stays readable that way.
struct FieldError {
  std::string message;  // "tensors.wte: no key \"dtype\""
};

// A JSON text with nothing but white space around it: valid UTF-8, no key twice in an object, no
// deeper than max_depth, and within the limits of base/input_limits.h. Throws FieldError.
nlohmann::json parse(std::string_view text, int max_depth);

// The same for a text that is one object, member by member, so that the object is never held as a
// whole: visit("", name, value). A member that `sections` names is an object of its own kind and
// comes member by member too: first visit("", section, {}), then visit(section, name, value).
// Whether a name comes twice in the text or in a section is for the visitor to say.
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
// Non-negative integers below 2^63.
std::vector<int64_t> counts(const nlohmann::json& array, const std::string& where);

}  // namespace trireme::strict_json
