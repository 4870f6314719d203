#include "session/evaluate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failure.h"
#include "comm/mpi/mpi_world.h"
#include "comm/world.h"
#include "planner/make_plan.h"
#include "predict/collective_bytes.h"
#include "session/agree_on_plan.h"
#include "train/kernel_choice.h"
#include "train/run_state.h"

namespace trireme {
namespace {

// The plan contains a training step, so its schedule needs enough micro-batches.
constexpr int64_t kMicrobatchesPerStage = 2;

RunConfig with_batch(RunConfig config) {
  BatchConfig& batch = config.batch;
  if (batch.global_sequences > 0 || batch.global_tokens > 0) return config;
  const ParallelConfig& parallel = config.parallel;
  batch.global_sequences = batch.micro_sequences * parallel.dp *
                           (parallel.pp > 1 ? kMicrobatchesPerStage * parallel.pp : 1);
  return config;
}

Status check_size(const World& world, const RunPlan& plan) {
  if (world.size() == plan.num_ranks()) return Done{};
  return usage(fmt::format(
      "{} processes were started for {} ranks ({}): start as many with mpirun, or leave "
      "mpirun out for ranks that are threads",
      world.size(), plan.num_ranks(), degrees_text(plan.mesh)));
}

}  // namespace

RunConfig evaluation_config(const RunConfig& trained) {
  RunConfig config;
  config.model = trained.model;
  config.model.preset.clear();
  config.model.dropout = 0.0;
  config.precision = trained.precision;
  config.data.source = DataSource::Synthetic;  // no file of [data] is read
  config.data.document_mask = trained.data.document_mask;
  config.batch.micro_sequences = trained.batch.micro_sequences;
  config.optim.name = OptimizerKind::Sgd;  // without moments, which an evaluation does not need
  config.optim.momentum = 0.0;
  config.checkpoint.asynchronous = false;
  config.run.seed = trained.run.seed;
  config.run.steps = 1;
  config.run.reproducible = trained.run.reproducible;
  config.run.isa = trained.run.isa;
  return config;
}

Result<EvalResult> evaluate_checkpoint(const EvaluationRequest& request) {
  const RunConfig config = with_batch(request.config);
  if (config.run.backend == BackendChoice::Tcp) {
    return usage("run.backend = \"tcp\" is for trireme launch: leave it out, or take \"mpi\"");
  }
  TRIREME_TRY(choice, choose_kernels(config.run.isa));
  TRIREME_TRY_DONE(check_runnable(with_defaults(config.model, 0)));
  TRIREME_TRY(plan, make_plan(config, request.host));
  EvalResult result;
  const auto rank = [&](World& world) {
    const auto require = [](const Status& status) {
      if (!status.ok()) throw Failure(status.error());
    };
    require(check_size(world, plan));
    require(agree_on_plan(world, plan));
    Engine engine(plan, world, *choice.kernels, request.data);
    require(restore_params(request.checkpoint, plan, engine));
    if (world.rank() == 0 && request.on_ready) request.on_ready(plan);
    const EvalResult evaluated = engine.evaluate(request.data, request.num_sequences);
    if (world.rank() == 0 || config.run.backend == BackendChoice::Mpi) result = evaluated;
    world.group().monitored_barrier();
  };
  const WorldOptions options{.timeout_s = config.run.comm_timeout_s,
                             .progress_timeout_s = config.checkpoint.timeout_s,
                             .threads_per_rank = plan.num_threads,
                             .cost = comm_cost(plan)};
  try {
    if (config.run.backend == BackendChoice::Mpi) {
      TRIREME_TRY_DONE(run_mpi_rank(options, rank));
    } else {
      run_ranks(plan.num_ranks(), options, rank);
    }
  } catch (const RankError& failure) {
    return failure.error();
  }
  return result;
}

}  // namespace trireme
