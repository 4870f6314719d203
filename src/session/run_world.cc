#include "session/run_world.h"

#include <fmt/format.h>

#include "base/failure.h"
#include "comm/mpi/mpi_world.h"
#include "comm/tcp/tcp_world.h"
#include "predict/collective_bytes.h"

namespace trireme {
namespace {

std::string wrong_world_size(int size, const RunPlan& plan) {
  const int ranks = plan.num_ranks();
  if (size == 1 && plan.config.run.backend == BackendChoice::Mpi) {
    return fmt::format(
        "run.backend = \"mpi\" needs a process for each of the {} ranks, and this is the only one: "
        "start them with `mpirun -n {} trireme train ...` or `srun -n {}`, or leave the key out "
        "for ranks that are threads",
        ranks, ranks, ranks);
  }
  return fmt::format(
      "{} processes were started for {} ranks ({}); start that many, or change the degrees", size,
      ranks, degrees_text(plan.mesh));
}

}  // namespace

Status check_launched(const SessionOptions& options) {
  if (options.config.run.backend != BackendChoice::Tcp || options.place) return Done{};
  return usage(
      "run.backend = \"tcp\" needs a launcher: start the run with `trireme launch` instead of "
      "`trireme train`");
}

WorldOptions world_options(const SessionOptions& options, const RunPlan& plan) {
  return {.timeout_s = options.config.run.comm_timeout_s,
          .progress_timeout_s = options.config.checkpoint.timeout_s,
          .threads_per_rank = plan.num_threads,
          .cost = comm_cost(plan),
          .stop_signals = &options.stop_signals,
          .on_hang = options.on_hang,
          .page = options.link != nullptr ? &options.link->progress() : nullptr};
}

Status run_world(const RunPlan& plan, const SessionOptions& session,
                 const std::function<void(World&)>& rank) {
  const WorldOptions options = world_options(session, plan);
  const auto checked = [&](World& world) {
    if (world.size() != plan.num_ranks()) {
      throw Failure({ErrorKind::Usage, wrong_world_size(world.size(), plan)});
    }
    rank(world);
  };
  switch (plan.config.run.backend) {
    case BackendChoice::Mpi:
      return run_mpi_rank(options, checked);
    case BackendChoice::Tcp:
      TRIREME_TRY_DONE(check_launched(session));
      return run_tcp_rank(*session.place, options, checked);
    case BackendChoice::Local:
      run_ranks(plan.num_ranks(), options, rank);
      return Done{};
  }
  return Done{};
}

}  // namespace trireme
