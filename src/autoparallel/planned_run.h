#pragma once

#include "autoparallel/plan_search.h"
#include "base/result.h"
#include "compile/run_plan.h"

namespace trireme {

// Returns what the search needs of a configuration: its model, batch, dtypes and memory. It ignores
// the layout of the configuration except the number of ranks. Returns a usage error if a rule
// forbids the search.
Result<PlannedRun> planned_run(const RunConfig& config, const HostFacts& host,
                               const Hardware& hardware);

// Returns the configuration that trains by a plan. In a run all ops of a stage have the same roles;
// stages may differ in their degrees of tp and dp (uneven_run.h). Else the error says what cannot
// run yet, and where. The configuration may still be refused by a rule of runs: see refuse_run.
Result<RunConfig> runnable_config(const FoundPlan& plan, const RunConfig& config,
                                  const Hardware& hardware);

// Refuses a configuration that `trireme train` refuses, by the same functions. Only whether its
// memory fits is not asked, because that needs the whole plan of every rank.
Status refuse_run(const RunConfig& config, const HostFacts& host);

// A found plan, with its configuration and with figures of the plan that is compiled from it.
struct RunnablePlan {
  FoundPlan found;
  RunConfig config;
  double predicted_s = 0.0;  // by the prediction of `trireme plan`
  int64_t arena_bytes = 0;   // of the rank that needs the most
};
// Compiles the configuration of a plan. If a run cannot have it, or if it does not fit, the error
// says why.
Result<RunnablePlan> compile_found(const FoundPlan& plan, const RunConfig& config,
                                   const HostFacts& host, const Hardware& hardware);
// Returns the first plan whose compiled plan fits, or nullopt if none does.
std::optional<RunnablePlan> best_runnable(const std::vector<FoundPlan>& plans,
                                          const RunConfig& config, const HostFacts& host,
                                          const Hardware& hardware);

}  // namespace trireme
