#include <fmt/format.h>

#include <cmath>

#include "schema/run_config_fields.h"

namespace trireme {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          out += fmt::format("\\u{:04X}", byte);
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string mixture_text(const std::vector<WeightedFile>& mixture) {
  std::string text;
  for (const WeightedFile& file : mixture) {
    text += fmt::format("{}{{path = {}, weight = {}}}", text.empty() ? "" : ", ", quoted(file.path),
                        number_text(file.weight));
  }
  return "[" + text + "]";
}

std::string layer_rules_text(const std::vector<LayerRule>& rules) {
  std::string text;
  for (const LayerRule& rule : rules) {
    text += fmt::format("{}{{match = {}, strategy = {}}}", text.empty() ? "" : ", ",
                        quoted(rule.match), quoted(std::string(name_of(rule.strategy))));
  }
  return "[" + text + "]";
}

namespace {

struct TomlText {
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const int* value) const { return std::to_string(*value); }
  std::string operator()(const int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const uint64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return number_text(*value); }
  std::string operator()(const std::string* value) const { return quoted(*value); }
  std::string operator()(const ChoiceField& field) const {
    return quoted(std::string(field.name()));
  }
  std::string operator()(const StepsField& field) const {
    return *field.value == kAutoSteps ? "\"auto\"" : std::to_string(*field.value);
  }
  std::string operator()(const MixtureField& field) const {
    return field.mixture->empty() ? quoted(*field.file) : mixture_text(*field.mixture);
  }
  std::string operator()(const LayersField& field) const { return layer_rules_text(*field.rules); }
};

struct TypeName {
  std::string_view operator()(const bool*) const { return "true or false"; }
  std::string_view operator()(const int*) const { return "an integer"; }
  std::string_view operator()(const int64_t*) const { return "an integer"; }
  std::string_view operator()(const uint64_t*) const { return "an integer, not negative"; }
  std::string_view operator()(const double*) const { return "a number"; }
  std::string_view operator()(const std::string*) const { return "a string"; }
  std::string_view operator()(const ChoiceField&) const { return "a string"; }
  std::string_view operator()(const StepsField&) const {
    return "an integer, not negative, or \"auto\"";
  }
  std::string_view operator()(const MixtureField&) const {
    return "a path, or a list such as [{path = \"a.tok\", weight = 2.0}]";
  }
  std::string_view operator()(const LayersField&) const {
    return "a list such as [{match = \"fc*\", strategy = \"tensor\"}] with the strategies data, "
           "tensor and spatial";
  }
};

}  // namespace

std::string_view type_name(const ConfigField& field) { return std::visit(TypeName{}, field.value); }
std::string toml_text(const ConfigField& field) { return std::visit(TomlText{}, field.value); }

}  // namespace trireme
