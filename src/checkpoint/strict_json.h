#pragma once

#include <cstdint>
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
// deeper than max_depth. Throws FieldError.
nlohmann::json parse(std::string_view text, int max_depth);

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
