#include "config/config_toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "config/toml_limits.h"

namespace trireme {
namespace {

// Parses a list of files with weights. Returns nullopt if the node is something else.
std::optional<std::vector<WeightedFile>> to_mixture(const toml::node& node) {
  const toml::array* list = node.as_array();
  if (list == nullptr || list->empty()) return std::nullopt;
  std::vector<WeightedFile> mixture;
  for (const toml::node& entry : *list) {
    const toml::table* table = entry.as_table();
    if (table == nullptr) return std::nullopt;
    const auto path = (*table)["path"].value_exact<std::string>();
    const auto weight = (*table)["weight"].value<double>();
    const size_t known = (path ? 1u : 0u) + (weight ? 1u : 0u);
    if (!path || known != table->size()) return std::nullopt;
    mixture.push_back({*path, weight.value_or(1.0)});
  }
  return mixture;
}

// Parses a list of patterns with strategies. Returns nullopt if the node is something else.
std::optional<std::vector<LayerRule>> to_layer_rules(const toml::node& node) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return std::nullopt;
  std::vector<LayerRule> rules;
  for (const toml::node& entry : *list) {
    const toml::table* table = entry.as_table();
    if (table == nullptr || table->size() != 2) return std::nullopt;
    const auto match = (*table)["match"].value_exact<std::string>();
    const auto name = (*table)["strategy"].value_exact<std::string>();
    const auto strategy = name ? choice_of<LayerStrategy>(*name) : std::nullopt;
    if (!match || !strategy) return std::nullopt;
    rules.push_back({*match, *strategy});
  }
  return rules;
}

// Says which entry of a list has a key that no list of tables knows, or a strategy that no layer
// has; "" if there is none.
std::string wrong_entry(const toml::node& node) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return "";
  constexpr std::array<std::string_view, 4> known = {"path", "weight", "match", "strategy"};
  size_t entry = 0;
  for (const toml::node& one : *list) {
    ++entry;
    const toml::table* table = one.as_table();
    if (table == nullptr) return "";
    for (const auto& [key, value] : *table) {
      const auto name = value.value_exact<std::string>();
      if (key.str() == "strategy" && name && !choice_of<LayerStrategy>(*name)) {
        return fmt::format(" whose entry {} has the unknown strategy {}", entry,
                           name->substr(0, limits::kConfigKeyBytes));
      }
      if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
      return fmt::format(" whose entry {} has the unknown key {}", entry,
                         key.str().substr(0, limits::kConfigKeyBytes));
    }
  }
  return "";
}

TomlValue to_value(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (auto mixture = to_mixture(node)) return std::move(*mixture);
  if (auto rules = to_layer_rules(node)) return std::move(*rules);
  std::ostringstream name;
  name << node.type();
  return OtherToml{name.str() + wrong_entry(node)};
}

std::string value_text(const TomlValue& value) {
  if (const auto* other = std::get_if<OtherToml>(&value)) return "(" + other->type_name + ")";
  if (const auto* mixture = std::get_if<std::vector<WeightedFile>>(&value)) {
    return mixture_text(*mixture);
  }
  if (const auto* rules = std::get_if<std::vector<LayerRule>>(&value)) {
    return layer_rules_text(*rules);
  }
  ConfigField field;
  TomlValue copy = value;
  if (auto* v = std::get_if<bool>(&copy)) field.value = v;
  if (auto* v = std::get_if<int64_t>(&copy)) field.value = v;
  if (auto* v = std::get_if<double>(&copy)) field.value = v;
  if (auto* v = std::get_if<std::string>(&copy)) field.value = v;
  return toml_text(field);
}

Error syntax_error(const toml::parse_error& error, const std::string& source) {
  return usage(fmt::format("{}:{}:{}: not valid TOML: {}", source, error.source().begin.line,
                           error.source().begin.column, error.description()));
}

ConfigAssignment make_assignment(std::string key, const toml::node& node,
                                 const std::string& source) {
  ConfigAssignment assignment;
  assignment.key = std::move(key);
  assignment.value = to_value(node);
  assignment.text = value_text(assignment.value);
  assignment.origin = {source, static_cast<int>(node.source().begin.line)};
  return assignment;
}

// Parses a single TOML value. Returns nullopt if the text is not one.
std::optional<TomlValue> parse_value(std::string_view text) {
  const std::string line = fmt::format("v = {}", text);
  if (!check_toml_limits(line).ok()) return std::nullopt;
  try {
    const toml::table table = toml::parse(line);
    if (table.size() != 1) return std::nullopt;
    return to_value(table.begin()->second);
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

// True if the key takes this text as a string, whatever it looks like. For a key that also takes a
// list of files, a list is no string, even if it is a wrong one.
bool takes_as_string(std::string_view key, std::string_view text) {
  RunConfig config;
  for (const ConfigField& field : config_fields(config)) {
    if (field.key() != key) continue;
    if (std::holds_alternative<MixtureField>(field.value)) return !text.starts_with('[');
    return type_name(field) == "a string";
  }
  return false;
}

// Stores a value into one member. Returns false if the value has another type.
struct Store {
  const TomlValue& value;

  bool operator()(bool* target) const { return copy(target); }
  bool operator()(int64_t* target) const { return store_integer(target); }
  bool operator()(int* target) const {
    int64_t wide = 0;
    if (!store_integer(&wide) || wide < std::numeric_limits<int>::min() ||
        wide > std::numeric_limits<int>::max()) {
      return false;
    }
    *target = static_cast<int>(wide);
    return true;
  }
  bool operator()(uint64_t* target) const {
    int64_t wide = 0;
    if (!store_integer(&wide) || wide < 0) return false;
    *target = static_cast<uint64_t>(wide);
    return true;
  }
  bool operator()(double* target) const {
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      *target = static_cast<double>(*integer);
      return true;
    }
    return copy(target);
  }
  bool operator()(std::string* target) const { return copy(target); }
  bool operator()(ChoiceField target) const {
    const auto* name = std::get_if<std::string>(&value);
    return name != nullptr && target.set(*name);
  }
  bool operator()(StepsField target) const {
    const auto* word = std::get_if<std::string>(&value);
    if (word == nullptr) return store_integer(target.value) && *target.value != kAutoSteps;
    if (*word == "auto") *target.value = kAutoSteps;
    return *word == "auto";
  }
  bool operator()(MixtureField target) const {
    const auto* mixture = std::get_if<std::vector<WeightedFile>>(&value);
    if (mixture == nullptr && !copy(target.file)) return false;
    *target.mixture = mixture == nullptr ? std::vector<WeightedFile>() : *mixture;
    if (mixture != nullptr) target.file->clear();
    return true;
  }
  bool operator()(LayersField target) const { return copy(target.rules); }

 private:
  template <typename T>
  bool copy(T* target) const {
    const T* same = std::get_if<T>(&value);
    if (same != nullptr) *target = *same;
    return same != nullptr;
  }
  // Accepts 2e6 as an integer, although TOML does not.
  bool store_integer(int64_t* target) const {
    if (const auto* number = std::get_if<double>(&value)) {
      if (std::abs(*number) > 9e15 || *number != std::floor(*number)) return false;
      *target = static_cast<int64_t>(*number);
      return true;
    }
    return copy(target);
  }
};

// How deeply the tables of a section have names of the user's choice: [tiers.node] and
// [devices.a100] of a hardware file, [causes.NAME] of failure rates, [rules.NAME] and
// [classes.NAME] of failure rules, [sources.NAME], [combinations.NAME] and [workers.NAME] of served
// pipelines and their tiers, [operators.NAME.models.NAME.speeds].
int depth_of_named_tables(std::string_view section) {
  for (const std::string_view named :
       {"tiers", "devices", "causes", "rules", "classes", "sources", "combinations", "workers"}) {
    if (section == named) return 1;
  }
  return section == "operators" ? 4 : 0;
}

// Adds the values of a node; those of tables down to this depth have keys of their own.
void add_assignments(const std::string& key, const toml::node& node, const std::string& source,
                     int depth, std::vector<ConfigAssignment>& assignments) {
  const toml::table* table = depth > 0 ? node.as_table() : nullptr;
  if (table == nullptr || table->empty()) {
    assignments.push_back(make_assignment(key, node, source));
    return;
  }
  for (const auto& [name, inner] : *table) {
    add_assignments(fmt::format("{}.{}", key, name.str()), inner, source, depth - 1, assignments);
  }
}

}  // namespace

std::string ConfigOrigin::where() const {
  return line > 0 ? fmt::format("{}:{}", source, line) : source;
}

Result<std::vector<ConfigAssignment>> parse_config_text(std::string_view text,
                                                        const std::string& source) {
  const Status within = check_toml_limits(text);
  if (!within.ok()) return usage(source + ":" + within.error().message);
  toml::table root;
  try {
    root = toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    return syntax_error(error, source);
  }
  std::vector<ConfigAssignment> assignments;
  for (const auto& [section, section_node] : root) {
    const toml::table* table = section_node.as_table();
    if (table == nullptr) {
      assignments.push_back(make_assignment(std::string(section.str()), section_node, source));
      continue;
    }
    for (const auto& [name, node] : *table) {
      add_assignments(fmt::format("{}.{}", section.str(), name.str()), node, source,
                      depth_of_named_tables(section.str()), assignments);
    }
    // An empty section with a misspelt name is reported too.
    const auto& known = config_sections();
    const std::string_view section_name = section.str();
    const bool is_known = std::any_of(known.begin(), known.end(),
                                      [&](const auto& s) { return s.name == section_name; });
    if (table->empty() && !is_known) {
      assignments.push_back(make_assignment(std::string(section.str()), section_node, source));
    }
  }
  if (static_cast<int64_t>(assignments.size()) > limits::kConfigAssignments) {
    return usage(fmt::format("{}: more than {} keys; a configuration has about a hundred", source,
                             limits::kConfigAssignments));
  }
  for (const ConfigAssignment& assignment : assignments) {
    if (static_cast<int64_t>(assignment.key.size()) <= limits::kConfigKeyBytes) continue;
    return usage(fmt::format("{}: a key of more than {} bytes; it begins with {}",
                             assignment.origin.where(), limits::kConfigKeyBytes,
                             assignment.key.substr(0, 32)));
  }
  std::stable_sort(assignments.begin(), assignments.end(),
                   [](const auto& a, const auto& b) { return a.origin.line < b.origin.line; });
  return assignments;
}

Result<ConfigAssignment> parse_override(std::string_view override_text) {
  const size_t equals = override_text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return usage(
        fmt::format("--set {}: must be KEY=VALUE, such as --set model.layers=4", override_text));
  }
  ConfigAssignment assignment;
  assignment.key = std::string(override_text.substr(0, equals));
  assignment.origin = {fmt::format("--set {}", override_text), 0};
  if (static_cast<int64_t>(equals) > limits::kConfigKeyBytes) {
    return usage(fmt::format("--set {}...: a key of more than {} bytes",
                             override_text.substr(0, 32), limits::kConfigKeyBytes));
  }
  const std::string_view text = override_text.substr(equals + 1);
  const std::optional<TomlValue> value = parse_value(text);
  const bool is_word = value && !std::holds_alternative<std::string>(*value) &&
                       takes_as_string(assignment.key, text);
  if (!value || is_word) {
    assignment.value = std::string(text);
    assignment.text = value_text(assignment.value);
    // A word without quotes may contain bytes that TOML text cannot, but the resolved configuration
    // is TOML.
    const std::optional<TomlValue> again = parse_value(assignment.text);
    if (!again || *std::get_if<std::string>(&*again) != text) {
      return usage(fmt::format("--set {}: the value is not UTF-8", assignment.key));
    }
    return assignment;
  }
  assignment.value = *value;
  assignment.text = value_text(*value);
  return assignment;
}

bool is_misspelt(const ConfigField& field, const ConfigAssignment& assignment) {
  const auto* word = std::get_if<std::string>(&assignment.value);
  return word != nullptr && std::holds_alternative<ChoiceField>(field.value) &&
         std::find(field.choices.begin(), field.choices.end(), *word) == field.choices.end();
}

Status assign(const ConfigField& field, const ConfigAssignment& assignment) {
  if (std::visit(Store{assignment.value}, field.value)) return Done{};
  if (is_misspelt(field, assignment)) {
    return usage(fmt::format(
        "{} = {} is unknown; use {}{}", assignment.key, assignment.text, or_choices(field.choices),
        nearest_choice(std::get<std::string>(assignment.value), field.choices)));
  }
  return usage(
      fmt::format("{} = {} must be {}", assignment.key, assignment.text, type_name(field)));
}

}  // namespace trireme
