#include "interchange/peft_config.h"

#include <fmt/format.h>

#include <cmath>

#include "base/input_limits.h"
#include "base/json_text.h"
#include "interchange/hugging_face_fields.h"

namespace trireme {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Whole numbers as such: PEFT declares alpha as an integer.
ordered_json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 0x1p53) return int64_t(value);
  return value;
}

bool is_empty(const json* value) { return value == nullptr || value->empty(); }

// A pattern may give a module another rank or alpha, whose quotient must be that of all: the ranks
// follow from the tensors.
void check_patterns(const HuggingFaceFields& fields, const PeftConfig& config) {
  const json* ranks = fields.find("rank_pattern");
  const json* alphas = fields.find("alpha_pattern");
  if (is_empty(ranks) && is_empty(alphas)) return;
  const auto refuse = [] {
    throw UnsupportedSetting{
        "rank_pattern, alpha_pattern: modules whose alpha / r differ are not supported"};
  };
  if (is_empty(ranks) || is_empty(alphas) || !ranks->is_object() || !alphas->is_object()) refuse();
  for (const auto& [module, rank] : ranks->items()) {
    const auto alpha = alphas->find(module);
    if (alpha == alphas->end() || !alpha->is_number() || !rank.is_number()) refuse();
    const double r = rank.get<double>(), a = alpha->get<double>();
    if (r * config.alpha != a * double(config.rank)) refuse();
  }
  if (ranks->size() != alphas->size()) refuse();
}

// Initial values that are taken out of the base model's matrices leave another base model.
void check_initial_values(const HuggingFaceFields& fields) {
  const json* initial = fields.find("init_lora_weights");
  if (initial == nullptr || !initial->is_string()) return;
  const std::string name = initial->get<std::string>();
  for (const char* changing : {"pissa", "olora", "corda", "loftq"}) {
    if (!name.starts_with(changing)) continue;
    throw UnsupportedSetting{fmt::format(
        "init_lora_weights = \"{}\": adapters beside changed matrices are not supported; save them "
        "as adapters of the original model",
        name)};
  }
}

PeftConfig read_peft_object(const json& object) {
  const HuggingFaceFields fields(object);
  const std::string type = fields.word("peft_type", "");
  if (type != "LORA") {
    throw UnsupportedSetting{
        fmt::format("peft_type = \"{}\": only adapters of \"LORA\" are read", type)};
  }
  fields.refuse_flag("use_dora", true, "a norm of every column (DoRA)");
  fields.refuse_flag("use_rslora", true, "alpha divided by the root of r");
  fields.refuse_flag("lora_bias", true, "a bias of an adapter");
  if (const std::string bias = fields.word("bias", "none"); bias != "none") {
    throw UnsupportedSetting{
        fmt::format("bias = \"{}\": trained biases are no part of an adapter here", bias)};
  }
  if (!is_empty(fields.find("layer_replication"))) {
    throw UnsupportedSetting{"layer_replication: layers that are used twice are not supported"};
  }
  check_initial_values(fields);
  if (!is_empty(fields.find("modules_to_save"))) {
    throw UnsupportedSetting{"modules_to_save: modules that were trained whole are not supported"};
  }
  PeftConfig config;
  config.rank = fields.count("r");
  config.alpha = fields.number("lora_alpha", 8.0);
  if (config.rank < 1) throw strict_json::FieldError{"r: 0 is no rank"};
  if (!(config.alpha > 0.0) || !std::isfinite(config.alpha)) {
    throw strict_json::FieldError{fmt::format("lora_alpha: {} is not positive", config.alpha)};
  }
  check_patterns(fields, config);
  return config;
}

}  // namespace

std::string print_peft_config(const PeftConfig& config) {
  ordered_json ranks = ordered_json::object(), alphas = ordered_json::object();
  for (const auto& [module, times] : config.wider_modules) {
    ranks[module] = times * config.rank;
    alphas[module] = number(double(times) * config.alpha);
  }
  const ordered_json object = {{"peft_type", "LORA"},
                               {"task_type", "CAUSAL_LM"},
                               {"base_model_name_or_path", nullptr},
                               {"inference_mode", true},
                               {"r", config.rank},
                               {"lora_alpha", number(config.alpha)},
                               {"lora_dropout", 0.0},
                               {"target_modules", config.modules},
                               {"rank_pattern", ranks},
                               {"alpha_pattern", alphas},
                               {"fan_in_fan_out", config.is_transposed},
                               {"bias", "none"},
                               {"use_rslora", false},
                               {"modules_to_save", nullptr}};
  return json_text(object, 2) + "\n";
}

Result<PeftConfig> parse_peft_config(std::string_view text) {
  try {
    return read_peft_object(strict_json::parse(text, 32));
  } catch (const strict_json::FieldError& failure) {
    return Error{ErrorKind::Damaged, "adapter_config.json: " + failure.message};
  } catch (const UnsupportedSetting& reason) {
    return Error{ErrorKind::Infeasible, "adapter_config.json: " + reason.message};
  }
}

}  // namespace trireme
