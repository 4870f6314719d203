#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/run_config.h"

namespace trireme {

// The effect of a field. Results: the numbers that training produces. Layout: these too, unless
// run.reproducible is "layout" or "mesh". Mesh: these too, unless it is "mesh". Speed: only time,
// memory, and what is kept or shown; runs that differ only in such fields train the same weights.
enum class FieldEffect { Results, Mesh, Layout, Speed };

using FieldValue =
    std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, ModelFamily*>;

// A field of RUN.toml, bound to a configuration. Parsing, --set, printing, JSON, validation of
// names, docs/configuration.md and shell completion all use this one table.
struct ConfigField {
  std::string_view section;
  std::string_view name;
  std::string_view doc;
  FieldEffect effect = FieldEffect::Results;
  std::string_view choices;  // such as "none|selective|full"; "": any value of the type
  FieldValue value;

  std::string key() const;  // such as "model.layers"
};

// Returns the fields of a configuration, section by section in the order of the file. The pointers
// are valid as long as `config`.
std::vector<ConfigField> config_fields(RunConfig& config);
// Returns the same fields for reading only: the values must not be changed.
std::vector<ConfigField> config_fields(const RunConfig& config);

struct ConfigSection {
  std::string_view name;
  std::string_view doc;
};
const std::vector<ConfigSection>& config_sections();

std::vector<std::string> split_choices(std::string_view choices);
std::string_view name_of(ModelFamily family);

// Returns what a value must be: "integer", "true or false", "string", ...
std::string_view type_name(const ConfigField& field);
// Returns the value as TOML: the shortest text that reads back to the same value.
std::string toml_text(const ConfigField& field);

}  // namespace trireme
