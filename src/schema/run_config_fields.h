#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/run_config.h"

namespace trireme {

// FieldEffect says what a change of the field can change. Results: the trained numbers. Layout: the
// trained numbers, unless run.reproducible is "layout" or "mesh". Mesh: the trained numbers, unless
// it is "mesh". Speed: only time, memory, and what is kept or shown; two runs that differ only in
// such fields train the same weights.
enum class FieldEffect { Results, Mesh, Layout, Speed };

// A field that is an enum of run_config_choices.h, whichever it is.
struct ChoiceField {
  // The enum, which has one byte: bytes may be read and written as what they are.
  unsigned char* value = nullptr;
  ChoiceNames names;

  std::string_view name() const { return names[*value]; }
  // Sets the value that has this name. Returns false if there is none.
  bool set(std::string_view name) const;
};

// A number of steps, or "auto" (kAutoSteps).
struct StepsField {
  int64_t* value = nullptr;
};

// A file, or a list of files with weights.
struct MixtureField {
  std::string* file = nullptr;
  std::vector<WeightedFile>* mixture = nullptr;  // empty unless the value is a list
};

// A list of patterns for the names of layers, each with a strategy.
struct LayersField {
  std::vector<LayerRule>* rules = nullptr;
};

using FieldValue = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*,
                                ChoiceField, StepsField, MixtureField, LayersField>;

// A field of RUN.toml, bound to a configuration. Parsing, --set, printing, JSON, validation of
// names, docs/configuration.md and shell completion all use this one table.
struct ConfigField {
  std::string_view section;
  std::string_view name;
  std::string_view doc;
  FieldEffect effect = FieldEffect::Results;
  ChoiceNames choices;  // empty: any value of the type
  FieldValue value;

  std::string key() const;  // such as "model.layers"
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

// "none, selective or full": the choices as a message names them; the empty name is "".
std::string or_choices(ChoiceNames choices);
// "; did you mean full?", or "" where no choice is near.
std::string nearest_choice(std::string_view word, ChoiceNames choices);

// Returns the mixture as TOML, such as [{path = "a.tok", weight = 2.0}].
std::string mixture_text(const std::vector<WeightedFile>& mixture);

// Returns the type that a value of the field must have: "an integer", "true or false", "a string",
// ...
std::string_view type_name(const ConfigField& field);
// Returns the value as the shortest TOML text that reads back to the same value.
std::string toml_text(const ConfigField& field);

}  // namespace trireme
