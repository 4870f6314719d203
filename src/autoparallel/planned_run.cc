#include "autoparallel/planned_run.h"

#include <fmt/format.h>

#include "autoparallel/uneven_run.h"
#include "compile/compile_plan.h"
#include "planner/layout_choice.h"
#include "planner/make_plan.h"
#include "predict/predict.h"
#include "schema/batch.h"
#include "schema/mesh.h"

namespace trireme {
namespace {

LayoutChoice layout_of(const FoundPlan& plan, const RunConfig& config, const Hardware& hardware) {
  const StageSearch::Uniform& uniform = *plan.uniform;
  LayoutChoice layout;
  Mesh& mesh = layout.mesh;
  for (size_t d = 0; d < 2; ++d) {
    const MeshDim& dim = uniform.mesh.dims[d];
    if (dim.degree() == 1) continue;
    const Role role = uniform.roles[d];
    if (role == Role::Tensor || role == Role::SequenceTensor) {
      mesh.tp *= dim.degree();
      // Ranks of tp share out images without being told.
      const bool is_told = !reads_images(config.model.family);
      layout.exchange.sequence |= role == Role::SequenceTensor && is_told;
      continue;
    }
    (dim.rows == Role::Data ? mesh.dp : mesh.cp) *= dim.degree();
    if (role == Role::Expert) mesh.ep *= dim.degree();
  }
  mesh.pp = int(plan.stages.size());
  // Stages take neighbouring ranks.
  if (mesh.pp > 1 && !hardware.nodes().share_node(0, mesh.size() - 1)) {
    mesh.order = {MeshAxis::Tp, MeshAxis::Dp, MeshAxis::Cp, MeshAxis::Pp};
  }
  if (mesh.dp > 1) layout.zero = zero_level_of(uniform.sharding);
  layout.micro_sequences = plan.sequences / mesh.dp;
  layout.recompute = uniform.recompute;
  layout.exchange.context = config.parallel.context;
  return layout;
}

}  // namespace

Result<PlannedRun> planned_run(const RunConfig& config, const HostFacts& host,
                               const Hardware& hardware) {
  RunConfig alone = with_layout(config, {});
  if (const int64_t global = sequences_of_step(config); global > 0) {
    alone.batch.global_sequences = global;
    alone.batch.global_tokens = 0;
  }
  HostFacts facts = host;
  const auto num_ranks = int(trireme::num_ranks(config.parallel));
  if (facts.ranks_on_host == 0) facts.ranks_on_host = num_ranks;
  TRIREME_TRY(started, start_plan(alone, facts));
  if (started.shape.slices > 0) {
    return usage(
        "the search of plans by op prices no slices; set run.reproducible = \"layout\" or "
        "\"fixed\" in place of \"mesh\"");
  }
  if (cuts_image_rows(config.parallel.layers)) {
    return usage(
        "the search of plans by op does not share out rows of images; leave out the strategy "
        "\"spatial\" of parallel.layers, or use --search without a value");
  }
  if (started.model.batch_norm == NormBatch::Step) {
    return usage(
        "the search of plans by op prices no sums of batch norms over a step; set "
        "model.batch_norm = \"micro_batch\"");
  }
  if (started.model.mtp_depth > 0) {
    return usage(
        "the search of plans by op does not place the modules of multi-token prediction apart "
        "from the head; set model.mtp_depth = 0, or use --search without a value");
  }
  PlannedRun run{.model = started.model,
                 .base = started.shape,
                 .hardware = hardware,
                 .num_ranks = num_ranks,
                 .global_sequences = started.global_sequences,
                 .recomputes = recomputes_of(config.memory.recompute),
                 .config = config,
                 .host = facts};
  run.base.context_exchange = config.parallel.context;
  run.base.recompute = Recompute::None;
  const int64_t own = config.memory.limit_bytes > 0 ? config.memory.limit_bytes
                                                    : facts.memory_bytes / facts.ranks_on_host;
  run.memory_bytes = own > 0 ? double(own) : kImpossible;
  if (run.recomputes == std::vector<Recompute>{Recompute::Fit}) {
    run.recomputes = {kRecomputes[0], kRecomputes[1], kRecomputes[2]};
  }
  return run;
}

Result<RunConfig> runnable_config(const FoundPlan& plan, const RunConfig& config,
                                  const Hardware& hardware) {
  if (!plan.uniform) {
    Result<RunConfig> uneven = uneven_config(plan, config);
    if (uneven.ok()) return uneven;
    return infeasible("this plan cannot run yet: " + uneven.error().message);
  }
  RunConfig runnable = with_layout(config, layout_of(plan, config, hardware));
  runnable.batch.global_sequences = plan.sequences * plan.num_microbatches;
  runnable.batch.global_tokens = 0;
  if (plan.has_layers_by_speed) set_stage_layers(runnable, plan);
  return runnable;
}

Status refuse_run(const RunConfig& config, const HostFacts& host) {
  TRIREME_TRY(plan, start_plan(config, host));
  PlanParts parts;
  return outline_pipeline(plan, parts);
}

Result<RunnablePlan> compile_found(const FoundPlan& plan, const RunConfig& config,
                                   const HostFacts& host, const Hardware& hardware) {
  TRIREME_TRY(runnable, runnable_config(plan, config, hardware));
  const Result<RunPlan> compiled = make_plan(runnable, host);
  if (!compiled.ok()) return with_context(compiled.error(), "this plan cannot run");
  return RunnablePlan{plan, runnable, predicted_step_s(*compiled, hardware),
                      compiled->largest().memory.arena_bytes};
}

std::optional<RunnablePlan> best_runnable(const std::vector<FoundPlan>& plans,
                                          const RunConfig& config, const HostFacts& host,
                                          const Hardware& hardware) {
  for (const FoundPlan& plan : plans) {
    Result<RunnablePlan> compiled = compile_found(plan, config, host, hardware);
    if (compiled.ok()) return std::move(*compiled);
  }
  return std::nullopt;
}

}  // namespace trireme
