#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config_toml.h"

namespace trireme {

// A field of a table whose name the user chooses, such as [causes.NAME], and the values that it may
// have.
struct BoundedField {
  ConfigField field;
  double least = 0.0;
  double most = -1.0;  // below `least`: any value of the type
};

BoundedField number_field(std::string_view name, FieldValue value, double least, double most);
BoundedField word_field(std::string_view name, std::string* value);
// A field that is one of `names`, by its place there.
template <typename E, size_t N>
BoundedField choice_field(std::string_view name, E& value, const std::string_view (&names)[N]) {
  const ChoiceField choice{reinterpret_cast<unsigned char*>(&value), names};
  return {{"", name, "", FieldEffect::Speed, names, choice}};
}

// Stores a value in the field `name`, or says why it cannot, without the place.
Status assign_bounded(std::vector<BoundedField> fields, const std::string& name,
                      const ConfigAssignment& assignment);

}  // namespace trireme
