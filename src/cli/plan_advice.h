#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "cli/options.h"
#include "cli/plan_goodput.h"
#include "cli/plan_storage.h"
#include "planner/layout_rules.h"
#include "planner/max_model.h"
#include "planner/roofline.h"
#include "planner/token_cost.h"

namespace trireme {

// The options of `trireme plan` that ask for advice beside the plan.
struct PlanAdviceOptions {
  TokenQuestion token_question;
  GoodputOptions goodput;
  StorageOptions storage;
  bool max_model = false;
  bool rules = false;
  std::string roofline;  // FILE.svg or .txt; "": none
};

std::vector<Option> advice_options(PlanAdviceOptions& options);
Status check_advice_options(const PlanAdviceOptions& options);

// The layout that the rules give, beside the best one that the search finds.
struct RulesAdvice {
  RuledLayout ruled;
  PricedLayout best;
  std::string set;  // options that give the configuration the rules' layout

  double regret() const { return ruled.priced.time.step / best.time.step - 1.0; }
};

// Empty fields were not asked for.
struct PlanAdvice {
  std::optional<MaxModels> max_models;
  std::optional<RulesAdvice> rules;
  std::optional<Roofline> roof;
  std::optional<TokenCost> cost;
  std::optional<GoodputForecast> goodput;
  std::optional<StoragePlan> storage;
  std::optional<double> price_per_hour;  // of one device
  std::string hardware_name;

  // True if it answers a question about other layouts or models than the configured ones.
  bool stands_alone() const { return max_models || rules; }
};

// Everything but `cost`, `goodput` and `storage`, which need a plan. Also writes the file of
// --roofline.
Result<PlanAdvice> plan_advice(const PlanAdviceOptions& options, const RunConfig& config,
                               HostFacts host, const Hardware& hardware,
                               const OpenInput& open_input = {});

std::optional<TokenCost> cost_of_tokens(const PlanAdviceOptions& options, const RunSpeed& speed);

// Adds the cost of tokens, of failures and of checkpoints, which need the plan.
Status add_plan_costs(const PlanAdviceOptions& options, const RunPlan& plan,
                      const Hardware& hardware, PlanAdvice& advice);

std::string advice_text(const PlanAdvice& advice);
void add_advice(const PlanAdvice& advice, nlohmann::ordered_json& json);

// The table of --roofline FILE.txt.
std::string roofline_text(const Roofline& roof);

}  // namespace trireme
