#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "spec/run_config_fields.h"

namespace trireme {

// Where a value was written: "configs/run.toml:12", "--set model.layers=4".
struct ConfigOrigin {
  std::string source;
  int line = 0;  // 0: not in a file

  std::string where() const;
};

// A value as TOML knows it; anything but the four scalar kinds is named, not kept.
struct OtherToml {
  std::string type_name;  // "array"
};
using TomlValue = std::variant<bool, int64_t, double, std::string, OtherToml>;

// One `key = value` of a file or of the command line.
struct ConfigAssignment {
  std::string key;   // "model.layers"
  std::string text;  // the value as TOML, for messages
  TomlValue value;
  ConfigOrigin origin;
};

// The assignments of a TOML text in the order of its lines. Keys are checked for their form alone:
// every value lies in a section.
Result<std::vector<ConfigAssignment>> parse_config_text(std::string_view text,
                                                        const std::string& source);

// --set KEY=VALUE: VALUE is TOML; where it is not, or where `key` is a string field, a bare word.
Result<ConfigAssignment> parse_override(std::string_view override_text);

// Returns true if the value is a string, as the field wants it, and none of its choices.
bool is_misspelt(const ConfigField& field, const ConfigAssignment& assignment);

// Writes the value where it is of the field's type; else says what is wrong, without the origin.
Status assign(const ConfigField& field, const ConfigAssignment& assignment);

}  // namespace trireme
