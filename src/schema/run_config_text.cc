#include "schema/run_config_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "schema/run_config_fields.h"

namespace trireme {
namespace {

using nlohmann::ordered_json;

struct JsonValue {
  template <typename T>
  ordered_json operator()(const T* value) const {
    return *value;
  }
  ordered_json operator()(const double* value) const {
    return std::isfinite(*value) ? ordered_json(*value) : ordered_json(nullptr);
  }
  ordered_json operator()(const ChoiceField& field) const { return field.name(); }
  ordered_json operator()(const StepsField& field) const {
    return *field.value == kAutoSteps ? ordered_json("auto") : ordered_json(*field.value);
  }
  ordered_json operator()(const MixtureField& field) const {
    if (field.mixture->empty()) return *field.file;
    ordered_json list = ordered_json::array();
    for (const WeightedFile& file : *field.mixture) {
      list.push_back({{"path", file.path}, {"weight", file.weight}});
    }
    return list;
  }
  ordered_json operator()(const LayersField& field) const {
    ordered_json list = ordered_json::array();
    for (const LayerRule& rule : *field.rules) {
      list.push_back({{"match", rule.match}, {"strategy", name_of(rule.strategy)}});
    }
    return list;
  }
};

}  // namespace

std::string to_toml(const RunConfig& config) {
  std::string text;
  std::string_view section;
  for (const ConfigField& field : config_fields(config)) {
    if (field.section != section) {
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", field.section);
      section = field.section;
    }
    text += fmt::format("{} = {}\n", field.name, toml_text(field));
  }
  return text;
}

std::string to_json(const RunConfig& config) {
  ordered_json json;
  for (const ConfigField& field : config_fields(config)) {
    json[std::string(field.section)][std::string(field.name)] =
        std::visit(JsonValue{}, field.value);
  }
  // Paths may contain any bytes, but JSON text must be UTF-8.
  return lenient_json_text(json);
}

bool operator==(const RunConfig& a, const RunConfig& b) { return to_toml(a) == to_toml(b); }

}  // namespace trireme
