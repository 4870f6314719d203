#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

// JSON values as text, and back. Other files call these instead of the members dump() and parse(),
// because each file that does so compiles the library's writer or parser once more: several seconds
// under a sanitizer.

// Returns one line, or several with `indent` spaces for each level. Throws
// nlohmann::json::type_error if a string is not UTF-8.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// These do the same for strings that may come from anywhere, such as paths: U+FFFD stands for bytes
// that are not UTF-8.
std::string lenient_json_text(const nlohmann::json& value, int indent = -1);
std::string lenient_json_text(const nlohmann::ordered_json& value, int indent = -1);

// These escape all characters that are not ASCII, and return one line.
std::string ascii_json_text(const nlohmann::json& value);
std::string ascii_json_text(const nlohmann::ordered_json& value);

// Parses a text that this program has written. Throws nlohmann::json::parse_error. Texts of others
// need limits (base/bounded_json.h).
nlohmann::json parse_json(std::string_view text);
nlohmann::ordered_json parse_ordered_json(std::string_view text);
// These do not throw: the value is_discarded() if the text is not JSON.
nlohmann::json parse_json_or_discard(std::string_view text);
nlohmann::ordered_json parse_ordered_json_or_discard(std::string_view text);

}  // namespace trireme
