#include "base/json_number.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

namespace trireme {

template <typename Integer>
Integer whole_number(const nlohmann::json& value) {
  if (!value.is_number_integer()) {
    throw nlohmann::json::type_error::create(302, "a key that counts is not a whole number",
                                             &value);
  }
  const bool fits = value.is_number_unsigned() ? std::in_range<Integer>(value.get<uint64_t>())
                                               : std::in_range<Integer>(value.get<int64_t>());
  if (!fits) throw nlohmann::json::out_of_range::create(406, "a whole number is too large", &value);
  return value.get<Integer>();
}

template <typename Integer>
Integer whole_number_or(const nlohmann::json& object, const char* key, Integer otherwise) {
  return object.contains(key) ? whole_number<Integer>(object.at(key)) : otherwise;
}

template int whole_number(const nlohmann::json&);
template int64_t whole_number(const nlohmann::json&);
template uint64_t whole_number(const nlohmann::json&);
template int whole_number_or(const nlohmann::json&, const char*, int);
template int64_t whole_number_or(const nlohmann::json&, const char*, int64_t);
template uint64_t whole_number_or(const nlohmann::json&, const char*, uint64_t);

}  // namespace trireme
