#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/run_config.h"

namespace trireme {

// FieldEffect says what a change of the field can change. Results: the trained numbers. Layout: the
// trained numbers, unless run.reproducible is "layout" or "mesh". Mesh: the trained numbers, unless
// it is "mesh". Speed: only time, memory, and what is kept or shown; two runs that differ only in
// such fields train the same weights.
enum class FieldEffect { Results, Mesh, Layout, Speed };

using FieldValue =
    std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, ModelFamily*>;

// One field of RUN.toml, bound to a configuration. Parsing, --set, printing, JSON, validation of
// names, docs/configuration.md and shell completion all read this one table.
struct ConfigField {
  std::string_view section;
  std::string_view name;
  std::string_view doc;
  FieldEffect effect = FieldEffect::Results;
  std::string_view choices;  // "none|selective|full"; "": any value of the type
  FieldValue value;

  std::string key() const;  // "model.layers"
};

// Returns the fields of a configuration, section by section in the order of the file. Their
// pointers are valid as long as `config` lives.
std::vector<ConfigField> config_fields(RunConfig& config);
// This overload is for readers: the caller must not change the values.
std::vector<ConfigField> config_fields(const RunConfig& config);

struct ConfigSection {
  std::string_view name;
  std::string_view doc;
};
const std::vector<ConfigSection>& config_sections();

std::vector<std::string> split_choices(std::string_view choices);
std::string_view name_of(ModelFamily family);

// Returns the type that a value of the field must have: "an integer", "true or false", "a string",
// ...
std::string_view type_name(const ConfigField& field);
// Returns the value as the shortest TOML text that reads back to the same value.
std::string toml_text(const ConfigField& field);

}  // namespace trireme
