#include "base/json_number.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/json_text.h"

namespace trireme {

namespace {

using Json = nlohmann::json;

// The value as in a file; a long one is cut.
std::string shown(const Json& value) {
  constexpr size_t kShownBytes = 40;
  const std::string text = lenient_json_text(value);
  return text.size() <= kShownBytes ? text : text.substr(0, kShownBytes) + "...";
}

template <typename Integer>
bool fits(const Json& number) {
  return number.is_number_unsigned() ? std::in_range<Integer>(number.get<uint64_t>())
                                     : std::in_range<Integer>(number.get<int64_t>());
}

}  // namespace

template <typename Integer>
Integer whole_number(const Json& value) {
  if (!value.is_number_integer()) {
    throw Json::type_error::create(302, "expected a whole number, found " + shown(value), &value);
  }
  if (!fits<Integer>(value)) {
    using Limits = std::numeric_limits<Integer>;
    const std::string why = fmt::format("the number {} is outside {} to {}", shown(value),
                                        Limits::min(), Limits::max());
    throw Json::out_of_range::create(406, why, &value);
  }
  return value.get<Integer>();
}

template <typename Integer>
Integer whole_number_or(const Json& object, const char* key, Integer otherwise) {
  return object.contains(key) ? whole_number<Integer>(object.at(key)) : otherwise;
}

template int whole_number(const nlohmann::json&);
template int64_t whole_number(const nlohmann::json&);
template uint64_t whole_number(const nlohmann::json&);
template int whole_number_or(const nlohmann::json&, const char*, int);
template int64_t whole_number_or(const nlohmann::json&, const char*, int64_t);
template uint64_t whole_number_or(const nlohmann::json&, const char*, uint64_t);

}  // namespace trireme
