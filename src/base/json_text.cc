#include "base/json_text.h"

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using Strictness = nlohmann::json::error_handler_t;

template <typename Json>
std::string text_of_json(const Json& value, int indent, bool is_ascii, Strictness strictness) {
  return value.dump(indent, ' ', is_ascii, strictness);
}

}  // namespace

std::string json_text(const nlohmann::json& value, int indent) {
  return text_of_json(value, indent, false, Strictness::strict);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return text_of_json(value, indent, false, Strictness::strict);
}

std::string lenient_json_text(const nlohmann::json& value, int indent) {
  return text_of_json(value, indent, false, Strictness::replace);
}

std::string lenient_json_text(const nlohmann::ordered_json& value, int indent) {
  return text_of_json(value, indent, false, Strictness::replace);
}

std::string ascii_json_text(const nlohmann::json& value) {
  return text_of_json(value, -1, true, Strictness::replace);
}

std::string ascii_json_text(const nlohmann::ordered_json& value) {
  return text_of_json(value, -1, true, Strictness::replace);
}

nlohmann::json parse_json(std::string_view text) { return nlohmann::json::parse(text); }

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

nlohmann::json parse_json_or_discard(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, false);
}

nlohmann::ordered_json parse_ordered_json_or_discard(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

}  // namespace trireme
