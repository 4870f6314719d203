#include "checkpoint/strict_json.h"

#include <charconv>
#include <set>

namespace trireme::strict_json {
namespace {

using nlohmann::json;

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', true, json::error_handler_t::replace);
}

int64_t count(const json& value, const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    throw FieldError{where + ": not a count (an integer from 0 to 2^63 - 1)"};
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

}  // namespace

json parse(std::string_view text, int max_depth) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (depth >= max_depth) {
          throw FieldError{"deeper than " + std::to_string(max_depth) + " levels"};
        }
        keys.emplace_back();
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        keys.pop_back();
        break;
      case json::parse_event_t::key: {
        const std::string& key = parsed.get_ref<const std::string&>();
        if (!keys.back().insert(key).second) throw FieldError{"the key " + quoted(key) + " twice"};
        break;
      }
      case json::parse_event_t::value:
        break;
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& failure) {
    throw FieldError{std::string("not JSON: ") + failure.what()};
  }
}

const json& member(const json& object, const char* key, const std::string& where) {
  if (!object.is_object()) throw FieldError{where + ": not an object"};
  const auto found = object.find(key);
  if (found == object.end()) throw FieldError{where + ": no key \"" + key + "\""};
  return *found;
}

const json& object_member(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_object()) throw FieldError{where + "." + key + ": not an object"};
  return value;
}

std::string string_member(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_string()) throw FieldError{where + "." + key + ": not a string"};
  return value.get<std::string>();
}

int64_t count_member(const json& object, const char* key, const std::string& where) {
  return count(member(object, key, where), where + "." + key);
}

uint64_t hex_member(const json& object, const char* key, const std::string& where) {
  const std::string text = string_member(object, key, where);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
    throw FieldError{where + "." + key + ": not 16 hexadecimal digits"};
  }
  return value;
}

std::vector<int64_t> counts(const json& array, const std::string& where) {
  if (!array.is_array()) throw FieldError{where + ": not an array"};
  std::vector<int64_t> values;
  values.reserve(array.size());
  for (const json& value : array) values.push_back(count(value, where));
  return values;
}

}  // namespace trireme::strict_json
