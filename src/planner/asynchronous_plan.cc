#include "planner/asynchronous_plan.h"

#include <fmt/format.h>

namespace trireme {
namespace {

Status check_asynchronous(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const auto refuse = [](std::string_view what) {
    return Error{ErrorKind::Infeasible,
                 fmt::format("parallel.staleness above 0 trains copies of the whole model that do "
                             "not wait for each other: {}",
                             what)};
  };
  if (parallel.sync != "parameter_server" || parallel.servers != 1) {
    return refuse("set parallel.sync = \"parameter_server\" and parallel.servers = 1");
  }
  if (parallel.tp * parallel.pp * parallel.cp * parallel.ep != 1 || parallel.zero != 0) {
    return refuse("set parallel.tp, pp, cp and ep to 1 and parallel.zero to 0");
  }
  if (config.memory.offload != "none" || config.optim.post_validate) {
    return refuse("set memory.offload = \"none\" and optim.post_validate = false");
  }
  if (config.precision.compute == "fp16") {
    return refuse("in this version they have no loss scale: set precision.compute = \"bf16\"");
  }
  if (config.run.backend == "mpi") {
    return refuse("in this version its ranks are threads: set run.backend = \"local\"");
  }
  return Done{};
}

}  // namespace

Result<RunPlan> make_asynchronous_plan(const RunConfig& config, const HostFacts& host) {
  TRIREME_TRY_DONE(check_asynchronous(config));
  const int workers = config.parallel.dp;
  RunConfig of_worker = config;
  of_worker.parallel.dp = 1;
  of_worker.parallel.sync = "all_reduce";
  of_worker.parallel.staleness = 0;
  of_worker.run.reproducible = "fixed";  // the order of pushes is not deterministic
  int64_t& sequences = of_worker.batch.global_sequences;
  if (sequences == 0 && config.batch.global_tokens > 0 && config.model.seq_len > 0) {
    sequences = config.batch.global_tokens / config.model.seq_len;
  }
  of_worker.batch.global_tokens = 0;
  if (sequences % workers != 0) {
    return Error{ErrorKind::Usage, fmt::format("parallel.dp = {} must divide the {} sequences of "
                                               "a step",
                                               workers, sequences)};
  }
  sequences /= workers;
  HostFacts shared = host;
  if (shared.ranks_on_host == 0) shared.ranks_on_host = workers + 1;
  TRIREME_TRY(plan, make_plan(of_worker, shared));
  plan.config = config;
  plan.global_sequences *= workers;
  return plan;
}

}  // namespace trireme
