#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autoparallel/planned_run.h"
#include "autoparallel/role_prices.h"
#include "observe/draw_stages.h"

namespace trireme {

// A plan that a run can have, and what it is called in texts.
struct NamedPlan {
  std::string_view name;  // "the best uniform plan"
  const RunnablePlan* plan = nullptr;
};

// The result of `trireme plan --search alpa`.
struct PlanByOp {
  const PlannedRun& run;
  const RunConfig& config;
  PlanSearch search;
  Result<RunnablePlan> by_op;           // search.best, or why a run cannot have it
  std::optional<RunnablePlan> uniform;  // the best that runs today
  // On a mixed cluster the best of the same degrees in all stages that has more layers on faster
  // devices.
  std::optional<RunnablePlan> by_speed;
  // The best whose stages have degrees of their own, if it is faster than those.
  std::optional<RunnablePlan> by_stage;
  double seconds = 0.0;  // that the search took
  // The fastest layout of `trireme plan --search`, which knows more schedules and settings.
  std::optional<RunnablePlan> layout = std::nullopt;
  // There is an element for every stage of the best plan, or none if they are not asked for.
  std::vector<StageRolePrices> prices = {};

  // Returns the share of the time of the best uniform plan that the freedom saves; 0 if there is no
  // such plan.
  double gain() const;
  // Returns the model FLOPs of a step of `step_s` seconds as a share of the peak of all ranks.
  double mfu(double step_s) const;
  // Returns the configuration that trains by the best plan, or why there is none.
  Result<RunConfig> runnable() const;
  // Returns the fastest of all plans that a run can have, or nullopt if there is none.
  std::optional<NamedPlan> trainable() const;
};

// Searches the plan of a configuration op by op (docs/autoparallel.md).
Result<PlanByOp> search_by_op(const PlannedRun& run, const RunConfig& config,
                              const HostFacts& host);

// Returns the fastest layout of one role for all ops, or nullopt if none fits.
std::optional<RunnablePlan> search_one_layout(const RunConfig& config, const HostFacts& host,
                                              const Hardware& hardware);

// Returns the plan by stage and by op, its price, and what the freedom gains.
std::string plan_by_op_text(const PlanByOp& found);
// Returns the stages on their ranks, with the roles of their ops.
StagesPicture plan_by_op_picture(const PlanByOp& found);
// The members of "alpa" in the JSON of `plan --search alpa`.
nlohmann::ordered_json plan_by_op_json(const PlanByOp& found);

}  // namespace trireme
