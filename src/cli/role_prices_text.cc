#include "cli/role_prices_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/plan_by_op_words.h"

namespace trireme {
namespace {

// Other roles of an op that are shown, the fastest first.
constexpr size_t kShownRoles = 5;

std::string price_text(const RolePrice& price, const StagePlan& stage, const RanksOfStage& ranks) {
  if (price.stage_s == kImpossible && price.bytes == kImpossible) return "impossible";
  if (price.stage_s == kImpossible) {
    return fmt::format("does not fit: at least {} of {}", format_bytes(int64_t(price.bytes)),
                       format_bytes(int64_t(ranks.memory_bytes)));
  }
  const std::string more =
      price.is_chosen ? "chosen"
                      : fmt::format("{:+.1f} %", 100.0 * (price.stage_s / stage.seconds - 1.0));
  return fmt::format("{:>9} {:>8}; the op computes {}, communicates {}",
                     format_seconds(price.stage_s), more, format_seconds(price.compute_s),
                     format_seconds(price.communication_s));
}

std::string op_text(const std::string& name, const std::vector<RolePrice>& prices,
                    const StagePlan& stage, const RanksOfStage& ranks) {
  std::string text;
  const size_t shown = std::min(prices.size(), kShownRoles + 1);
  for (size_t i = 0; i < shown; ++i) {
    text +=
        fmt::format("      {:<22} {:<34} {}\n", i == 0 ? name : "",
                    to_string(prices[i].roles, stage.mesh), price_text(prices[i], stage, ranks));
  }
  if (prices.size() > shown) {
    text +=
        fmt::format("      {:<22} {} more that cost at least as much\n", "", prices.size() - shown);
  }
  return text;
}

}  // namespace

std::string role_prices_text(const PlanByOp& found) {
  const StageSearch names(found.run, found.search.best.sequences);
  const std::vector<StagePlan>& stages = found.search.best.stages;
  std::string text =
      "prices of the roles of every op: the seconds of a micro-batch in the stage if one op has "
      "these roles and the rest of its unit is chosen anew\n";
  int rank = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const StagePlan& stage = stages[s];
    const RanksOfStage ranks = ranks_of_stage(found.run, rank, stage.num_ranks);
    rank += stage.num_ranks;
    if (s > 0 && are_alike(stages[s - 1], stage)) continue;
    text += fmt::format("  stage {} ({}): {} a micro-batch, {}\n", s, to_string(stage.mesh),
                        format_seconds(stage.seconds), memory_text(stage, ranks));
    for (size_t u = 0; u < stage.units.size(); ++u) {
      const OpGroups& groups = names.groups(stage.units[u].kind);
      text += fmt::format("    {}\n", unit_text(groups, stage.units[u]));
      for (size_t g = 0; g < groups.groups().size(); ++g) {
        text += op_text(groups.groups()[g].name, found.prices[s][u][g], stage, ranks);
      }
    }
  }
  return text;
}

nlohmann::ordered_json role_prices_json(const std::vector<RolePrice>& prices) {
  auto json = nlohmann::ordered_json::array();
  for (const RolePrice& price : prices) {
    nlohmann::ordered_json one = {{"roles", {name_of(price.roles[0]), name_of(price.roles[1])}},
                                  {"chosen", price.is_chosen},
                                  {"fits", price.stage_s < kImpossible},
                                  {"stage_s", nullptr},
                                  {"bytes", nullptr},
                                  {"compute_s", price.compute_s},
                                  {"communication_s", price.communication_s}};
    if (price.stage_s < kImpossible) one["stage_s"] = price.stage_s;
    if (price.bytes < kImpossible) one["bytes"] = price.bytes;
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace trireme
