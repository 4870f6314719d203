#pragma once

#include "autoparallel/plan_search.h"
#include "base/result.h"
#include "compile/run_plan.h"

namespace trireme {

// What the search needs of a configuration: its model, batch, dtypes and memory. The layout of the
// configuration is ignored, but for the number of its ranks. A Usage error if a rule forbids it.
Result<PlannedRun> planned_run(const RunConfig& config, const HostFacts& host,
                               const Hardware& hardware);

// The configuration that trains by a plan. Runs have the same degrees in all stages, and one role
// for all ops: of a plan that has more freedom the error says what cannot run yet, and where.
Result<RunConfig> runnable_config(const FoundPlan& plan, const RunConfig& config,
                                  const Hardware& hardware);

// A plan of today's layouts with the plan that is compiled from its configuration.
struct RunnablePlan {
  FoundPlan found;
  RunConfig config;
  double predicted_s = 0.0;  // by the prediction of `trireme plan`
  int64_t arena_bytes = 0;   // of the rank that needs the most
};
// The fastest of the uniform plans that compiles and fits exactly, or nullopt.
std::optional<RunnablePlan> best_runnable(const PlanSearch& search, const RunConfig& config,
                                          const HostFacts& host, const Hardware& hardware);

}  // namespace trireme
