#include "planner/asynchronous_plan.h"

#include "planner/make_plan.h"
#include "schema/batch.h"
#include "schema/run_config_validate.h"

namespace trireme {

Result<RunPlan> make_asynchronous_plan(const RunConfig& config, const HostFacts& host) {
  const std::vector<ConfigProblem> problems = validate_with_data(config, host.data_vocab_size);
  if (!problems.empty()) return Error{problems.front().kind, problems.front().message()};
  const int workers = config.parallel.dp;
  RunConfig of_worker = config;
  of_worker.parallel.dp = 1;
  of_worker.parallel.sync = GradSync::AllReduce;
  of_worker.parallel.staleness = 0;
  of_worker.run.reproducible = Reproducible::Fixed;  // the order of pushes is not
  of_worker.batch.global_sequences = sequences_of_step(config) / workers;
  of_worker.batch.global_tokens = 0;
  HostFacts shared = host;
  if (shared.ranks_on_host == 0) shared.ranks_on_host = workers + 1;
  TRIREME_TRY(plan, make_plan(of_worker, shared));
  plan.config = config;
  plan.global_sequences *= workers;
  return plan;
}

}  // namespace trireme
