#include "compile/run_plan.h"

#include <algorithm>

#include "base/check.h"
#include "graph/param_table.h"
#include "schema/batch.h"
#include "schema/optimizer_state.h"
#include "schema/run_config_validate.h"
#include "schema/stage_counts.h"

namespace trireme {

bool RunPlan::holds_whole_model(const RankPlan& rank) const {
  int64_t elements = 0;
  for (const ParamSpec& param : local_param_table(model, rank.chunks.front().stage, rank.shape)) {
    elements += param.shape.num_elements();
  }
  return rank.chunks.size() == 1 && elements == num_params && !rank.zero.shards_params();
}

StageShape RunPlan::shape_at(int place) const {
  StageShape of_place = shape;
  if (mesh.is_uneven()) of_place.tp = mesh.tp_at(place);
  return of_place;
}

int RunPlan::place_of(int stage) const {
  for (int place = 0; place < schedule.num_ranks; ++place) {
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
      if (stage_of(schedule, place, chunk) == stage) return place;
    }
  }
  TRIREME_CHECK(false, "no rank holds the stage");
}

int64_t RunPlan::arena_bytes() const {
  int64_t bytes = 0;
  for (const RankClass& alike : classes) bytes += alike.num_ranks * alike.memory.arena_bytes;
  return bytes;
}

const RankClass& RunPlan::largest() const {
  return *std::max_element(classes.begin(), classes.end(),
                           [](const RankClass& a, const RankClass& b) {
                             return a.memory.arena_bytes < b.memory.arena_bytes;
                           });
}

const RankClass& RunPlan::tightest() const {
  return *std::max_element(
      classes.begin(), classes.end(),
      [](const RankClass& a, const RankClass& b) { return a.needed_bytes() < b.needed_bytes(); });
}

int64_t RunPlan::greatest_peak_bytes() const {
  int64_t most = 0;
  for (const RankClass& alike : classes) most = std::max(most, alike.memory.peak_bytes);
  return most;
}

namespace {

// True if the tensors of a checkpoint lie in memory, where they can be read beside a step.
bool can_save_beside_steps(const RunConfig& config) {
  return config.memory.offload == OffloadChoice::None && config.parallel.staleness == 0;
}

}  // namespace

bool wants_snapshots(const RunConfig& config) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  const bool saves_before_end = checkpoint.every == kAutoSteps ||
                                (checkpoint.every > 0 && checkpoint.every < config.run.steps);
  return checkpoint.asynchronous && saves_before_end && can_save_beside_steps(config);
}

bool wants_memory_checkpoints(const RunConfig& config) {
  return config.checkpoint.memory_every != 0 && can_save_beside_steps(config);
}

Result<RunPlan> start_plan(const RunConfig& config, const HostFacts& host) {
  const std::vector<ConfigProblem> problems = validate_with_data(config, host.data_vocab_size);
  if (!problems.empty()) return Error{problems.front().kind, problems.front().message()};
  RunPlan plan;
  plan.config = config;
  plan.mesh = mesh_of(config.parallel);
  const std::vector<int> layers = parse_stage_counts(config.parallel.stage_layers, 0).value();
  plan.layers_of_stage.assign(layers.begin(), layers.end());
  plan.model = with_defaults(config.model, host.data_vocab_size);
  plan.model.frozen = config.optim.frozen;
  const bool is_fixed = config.run.reproducible == Reproducible::Fixed;
  plan.mode = is_fixed ? AccumulateMode::Fixed : AccumulateMode::Layout;
  plan.hardware = host.hardware;
  plan.num_params = num_params(plan.model);
  if (config.data.document_mask) plan.shape.document_keys = host.document_keys;
  plan.flops_per_token = model_flops_per_token(plan.model, plan.shape.document_keys);
  const int ranks_on_host = host.ranks_on_host > 0 ? host.ranks_on_host : plan.num_ranks();
  plan.num_threads = config.run.threads_per_rank > 0 ? config.run.threads_per_rank
                                                     : std::max(1, host.num_cores / ranks_on_host);
  plan.global_sequences = sequences_of_step(config);
  plan.num_microbatches = microbatches_of_step(config);
  plan.shape.micro_sequences = sequences_of_microbatch(config);
  plan.shape.leaves = leaves_of_microbatch(config);
  plan.shape.compute = compute_dtype(config.precision.compute);
  plan.shape.documents = config.data.document_mask;
  plan.shape.reports_logits = config.optim.qk_clip > 0.0;
  plan.shape.recompute = config.memory.recompute;
  // As many slices as tp ranks, which 0 stands for, or as many as the model allows.
  const bool follows_tp = config.run.reproducible != Reproducible::Mesh;
  plan.shape.slices = follows_tp ? 0 : most_slices(plan.model);
  plan.shape.grad = state_dtype(config.optim.grad_dtype);
  plan.shape.optimizer_state = optimizer_state_of(config.optim);
  return plan;
}

int64_t memory_limit(const RunPlan& plan, const HostFacts& host) {
  if (plan.config.memory.limit_bytes > 0) return plan.config.memory.limit_bytes;
  const int ranks_on_host = host.ranks_on_host > 0 ? host.ranks_on_host : plan.num_ranks();
  return host.memory_bytes / ranks_on_host * plan.num_ranks();
}

}  // namespace trireme
