#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/number_text.h"
#include "cli/plan_advice.h"
#include "cli/search_plan.h"
#include "observe/goodput_json.h"
#include "schema/run_config_choices.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string cost_text(const TokenCost& cost) {
  std::string text =
      fmt::format("tokens     {} tokens take {:.1f} days, {} device hours",
                  format_count(cost.tokens), cost.days, plain_number(cost.device_hours));
  if (cost.megawatt_hours) text += fmt::format(", {} MWh", plain_number(*cost.megawatt_hours));
  if (cost.cost) text += fmt::format(", and cost {}", plain_number(*cost.cost));
  text += " (without failures, evaluation and checkpoints)\n";
  if (cost.token_efficiency) {
    text += fmt::format(
        "           at this noise scale {} tokens in smaller batches would do, in more steps\n",
        format_count(*cost.token_efficiency * cost.tokens));
  }
  if (!cost.with_failures) return text;
  if (!std::isfinite(cost.with_failures->days)) {
    return text +
           "           with failures it never ends: they come faster than the run starts again\n";
  }
  return text + fmt::format(
                    "           {:.1f} days if failures are counted: {:.3g} of them are expected\n",
                    cost.with_failures->days, cost.with_failures->failures);
}

std::string shape_text(const ModelConfig& model) {
  return fmt::format("{} layers x {}, heads {}/{}, d_ff {}", model.layers, model.d_model,
                     model.heads, model.kv_heads, model.d_ff);
}

// Returns the number of the reason in the list, from 1 on; a new one is added.
size_t number_of(const std::string& reason, std::vector<std::string>& reasons) {
  const auto found = std::find(reasons.begin(), reasons.end(), reason);
  const auto index = size_t(found - reasons.begin());
  if (found == reasons.end()) reasons.push_back(reason);
  return index + 1;
}

std::string max_models_text(const MaxModels& found) {
  std::string text = fmt::format(
      "\nlargest model of this shape: {} parameters with ZeRO {}, memory.offload = {}; {} {}\n",
      format_count(double(found.configured.params)), found.configured.zero,
      name_of(found.configured.offload), format_bytes(found.available_bytes),
      found.is_of_rank ? "for each rank" : "for all ranks");
  text += fmt::format("  {:>4} {:<9} {:>8} {:>10}  {}\n", "ZeRO", "offload", "params", "needs",
                      "model");
  std::vector<std::string> reasons;  // why no model fits; most rows share one
  for (const MaxModelRow& row : found.rows) {
    if (row.size == 0) {
      text += fmt::format("  {:>4} {:<9} {:>8} {:>10}  none, see {}\n", row.zero,
                          name_of(row.offload), "-", "-", number_of(row.next_refused, reasons));
      continue;
    }
    text += fmt::format("  {:>4} {:<9} {:>8} {:>10}  {}\n", row.zero, name_of(row.offload),
                        format_count(double(row.params)), format_bytes(row.needed_bytes),
                        shape_text(row.model));
  }
  for (size_t i = 0; i < reasons.size(); ++i) {
    text += fmt::format("  {}: {}\n", i + 1, reasons[i]);
  }
  return text + fmt::format("the next size does not fit: {}\n", found.configured.next_refused);
}

std::string regime_text(const TokenRegime& regime) {
  if (regime.across_nodes <= 0.0) return "";
  return fmt::format(
      "{:.0f} tokens a device and step; links keep up with data parallelism from {:.0f} inside a "
      "node and from {:.0f} over all ranks (peak / bandwidth): {}\n",
      regime.tokens_per_device, regime.inside_node, regime.across_nodes,
      regime.is_compute_bound() ? "computation is the limit"
                                : "communication is the limit without tp, pp or a larger batch");
}

std::string rules_text(const RulesAdvice& advice) {
  const RuledLayout& ruled = advice.ruled;
  std::string text = "\nlayout by rules\n" + regime_text(ruled.regime);
  for (size_t i = 0; i < ruled.steps.size(); ++i) {
    const RuleStep& step = ruled.steps[i];
    text += fmt::format("  {}. {:<13} {}: {}\n", i + 1, step.rule, step.choice, step.reason);
  }
  text += fmt::format("rules: {}, search: {}, regret {:.0f} %\n",
                      format_seconds(ruled.priced.time.step), format_seconds(advice.best.time.step),
                      100.0 * advice.regret());
  text += fmt::format("  rules   {}\n  search  {}\n", describe(ruled.priced.layout),
                      describe(advice.best.layout));
  return text + (advice.set.empty() ? "" : fmt::format("the rules' layout is {}\n", advice.set));
}

Json row_json(const MaxModelRow& row) {
  const ModelConfig& model = row.model;
  Json json = {{"zero", row.zero},
               {"offload", name_of(row.offload)},
               {"params", row.params},
               {"needed_bytes", row.needed_bytes}};
  if (row.size > 0) {
    json["model"] = {{"layers", model.layers},     {"d_model", model.d_model},
                     {"heads", model.heads},       {"kv_heads", model.kv_heads},
                     {"head_dim", model.head_dim}, {"d_ff", model.d_ff}};
  }
  json["next_refused"] = row.next_refused;
  return json;
}

Json rules_json(const RulesAdvice& advice) {
  const RuledLayout& ruled = advice.ruled;
  Json steps = Json::array();
  for (const RuleStep& step : ruled.steps) {
    steps.push_back({{"rule", step.rule}, {"choice", step.choice}, {"reason", step.reason}});
  }
  const TokenRegime& regime = ruled.regime;
  return {
      {"steps", steps},
      {"tokens_per_device", regime.tokens_per_device},
      {"tokens_to_keep_up",
       {{"inside_node", regime.inside_node}, {"across_nodes", regime.across_nodes}}},
      {"layout", layout_json(ruled.priced.layout)},
      {"step_s", ruled.priced.time.step},
      {"mfu", ruled.priced.mfu},
      {"peak", ruled.priced.peak_bytes},
      {"arena", ruled.priced.arena_bytes},
      {"set", advice.set},
      {"search", {{"layout", layout_json(advice.best.layout)}, {"step_s", advice.best.time.step}}},
      {"regret", advice.regret()}};
}

Json roofline_json(const Roofline& roof) {
  Json points = Json::array();
  for (const RoofPoint& point : roof.points) {
    points.push_back({{"unit", point.unit},
                      {"op", point.op},
                      {"pass", std::string(1, point.pass)},
                      {"flops", point.flops},
                      {"bytes", point.bytes},
                      {"seconds", point.seconds},
                      {"bound", name_of(point.bound)}});
  }
  return {{"peak_flops", roof.peak_flops},
          {"bytes_per_s", roof.bytes_per_s},
          {"ridge", roof.ridge()},
          {"points", points}};
}

}  // namespace

std::string advice_text(const PlanAdvice& advice) {
  std::string text;
  if (advice.cost) text += cost_text(*advice.cost);
  if (advice.max_models) text += max_models_text(*advice.max_models);
  if (advice.rules) text += rules_text(*advice.rules);
  if (advice.storage) text += "\n" + storage_text(*advice.storage);
  if (advice.goodput) text += goodput_text(*advice.goodput, advice.price_per_hour);
  return text;
}

void add_advice(const PlanAdvice& advice, Json& json) {
  if (advice.cost) {
    json["tokens"] = std::llround(advice.cost->tokens);
    json["days"] = advice.cost->days;
    json["device_hours"] = advice.cost->device_hours;
    if (advice.cost->cost) json["cost"] = *advice.cost->cost;
    if (advice.cost->megawatt_hours) json["megawatt_hours"] = *advice.cost->megawatt_hours;
    if (advice.cost->token_efficiency) json["token_efficiency"] = *advice.cost->token_efficiency;
    if (const auto& failures = advice.cost->with_failures) {
      const bool ends = std::isfinite(failures->days);
      json["failures"] = ends ? Json(failures->failures) : Json(nullptr);
      json["days_with_failures"] = ends ? Json(failures->days) : Json(nullptr);
    }
  }
  if (advice.max_models) {
    json["max_params"] = advice.max_models->configured.params;
    Json rows = Json::array();
    for (const MaxModelRow& row : advice.max_models->rows) rows.push_back(row_json(row));
    json["max_model"] = rows;
  }
  if (advice.rules) json["rules"] = rules_json(*advice.rules);
  if (advice.roof) json["roofline"] = roofline_json(*advice.roof);
  if (advice.storage) json["storage"] = storage_json(*advice.storage);
  if (advice.goodput) json["failures"] = goodput_json(*advice.goodput, advice.price_per_hour);
}

std::string roofline_text(const Roofline& roof) {
  std::string text =
      fmt::format("{}: peak {}FLOP/s, {}B/s, ridge {:.4g} FLOPs per byte\n", roof.device,
                  format_count(roof.peak_flops), format_count(roof.bytes_per_s), roof.ridge());
  text += fmt::format("{:<6} {:<18} {:<4} {:>8} {:>8} {:>9} {:>9} {:>9} {:>6}  {}\n", "unit", "op",
                      "pass", "FLOPs", "bytes", "FLOPs/B", "time", "FLOP/s", "roof", "bound by");
  for (const RoofPoint& point : roof.points) {
    const double share = point.flops_per_s() / roof.roof_at(point.flops_per_byte());
    text += fmt::format("{:<6} {:<18} {:<4} {:>8} {:>8} {:>9.3g} {:>9} {:>9} {:>5.1f}%  {}\n",
                        point.unit, point.op, point.pass, format_count(point.flops),
                        format_count(point.bytes), point.flops_per_byte(),
                        format_seconds(point.seconds), format_count(point.flops_per_s()),
                        100.0 * share, name_of(point.bound));
  }
  return text;
}

}  // namespace trireme
