#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "schema/run_config_fields.h"

namespace trireme {

// The place where a value was written, such as "configs/run.toml:12" or "--set model.layers=4".
struct ConfigOrigin {
  std::string source;
  int line = 0;  // 0: not from a file

  std::string where() const;
};

// A TOML value of a kind that TomlValue does not list. Only its type is kept.
struct OtherToml {
  std::string type_name;  // such as "array", perhaps with what is wrong in it
};
// A list of tables is a mixture if each table has `path`, perhaps `weight` (default 1), and no
// more; it is a list of layer rules if each has `match` and `strategy`. An empty list is the
// latter.
using TomlValue = std::variant<bool, int64_t, double, std::string, std::vector<WeightedFile>,
                               std::vector<LayerRule>, OtherToml>;

// A `key = value` of a file or of the command line.
struct ConfigAssignment {
  std::string key;   // such as "model.layers"
  std::string text;  // the value as TOML, for messages
  TomlValue value;
  ConfigOrigin origin;
};

// Parses the assignments of a TOML text in the order of its lines. Of the keys only the form is
// checked: every value must be in a section.
Result<std::vector<ConfigAssignment>> parse_config_text(std::string_view text,
                                                        const std::string& source);

// Parses --set KEY=VALUE. VALUE is TOML, or a word without quotes if it is not TOML or `key` is a
// string field.
Result<ConfigAssignment> parse_override(std::string_view override_text);

// Returns true if the value is a string, as the field wants it, and none of its choices.
bool is_misspelt(const ConfigField& field, const ConfigAssignment& assignment);

// Stores the value if it has the type of the field; else returns an error without the origin.
Status assign(const ConfigField& field, const ConfigAssignment& assignment);

}  // namespace trireme
