#include "planner/memory_as.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/simulate.h"

namespace trireme {
namespace {

constexpr double kLogitBytes = 4.0;
constexpr double kDropoutMaskBytes = 1.0;

Status check_rules(const RunPlan& plan, const TrainerRules& rules) {
  if (plan.config.parallel.zero > rules.most_zero) {
    return infeasible(
        fmt::format("parallel.zero = {}: this trainer has ZeRO up to {}; set "
                    "parallel.zero = {}",
                    plan.config.parallel.zero, rules.most_zero, rules.most_zero));
  }
  if (plan.mesh.is_uneven()) {
    return infeasible(
        "parallel.stage_tp and stage_dp: other trainers have the same degrees at every place of "
        "the "
        "pipeline; leave them out");
  }
  if (plan.model.has_experts()) {
    return infeasible("what other trainers keep of experts is not described; plan a dense model");
  }
  return Done{};
}

double params_of(const RankPlan& rank) {
  double count = 0.0;
  for (const ChunkTables& chunk : rank.chunks) {
    for (const ParamSpec& param : chunk.params) count += double(param.shape.num_elements());
  }
  return count;
}

// Parameters of the largest bucket: a layer, the embedding, or several units that move as one.
double params_of_largest_bucket(const RankPlan& rank) {
  double most = 0.0;
  for (const ChunkTables& chunk : rank.chunks) {
    for (const PlacedBucket& placed : chunk.buckets) {
      double count = 0.0;
      for (const BucketTensor& tensor : placed.bucket.tensors) count += double(tensor.num_elements);
      most = std::max(most, count);
    }
  }
  return most;
}

double tokens_of(const RunPlan& plan) {
  return double(plan.shape.micro_sequences) * double(plan.model.seq_len) / plan.mesh.cp;
}

// Bytes that a stage keeps for each micro-batch.
double saved_by_stage(const RunPlan& plan, const TrainerRules& rules, const StageSpec& stage) {
  const double width = double(plan.model.d_model) * tokens_of(plan);
  const double parts = plan.shape.sequence_parallel ? plan.mesh.tp : 1;
  double bytes = double(stage.num_layers) * kept_bytes(plan.model, rules, plan.shape);
  if (stage.has_embedding && plan.model.dropout > 0.0) bytes += kDropoutMaskBytes * width / parts;
  if (stage.has_head) bytes += 4.0 * width / parts;  // inputs of the last norm and of the head
  return bytes;
}

// The layer that is computed again while the backward pass needs it.
double recomputed_bytes(const RunPlan& plan, const TrainerRules& rules) {
  if (plan.shape.recompute == Recompute::None) return 0.0;
  StageShape whole = plan.shape;
  whole.recompute = Recompute::None;
  return kept_bytes(plan.model, rules, whole) - kept_bytes(plan.model, rules, plan.shape);
}

}  // namespace

Result<std::vector<TrainerMemory>> memory_as(const RunPlan& plan, const TrainerRules& rules) {
  TRIREME_TRY_DONE(check_rules(plan, rules));
  Costs costs;
  costs.held_for_w = share_held_for_weights(plan.model, rules);
  costs.saved_bytes.clear();
  for (const StageSpec& stage : plan.stages) {
    costs.saved_bytes.push_back(saved_by_stage(plan, rules, stage));
  }
  TRIREME_TRY(simulation, simulate(plan.schedule, costs));
  const int zero = plan.config.parallel.zero;
  const StateBytes bytes = rules.state.shared(zero, plan.mesh.dp * plan.mesh.cp);
  std::vector<TrainerMemory> stages;
  for (const RankPlan& rank : plan.pipeline) {
    const double params = params_of(rank);
    TrainerMemory memory = {.params = params * bytes.params,
                            .grads = params * bytes.grads,
                            .optimizer = params * bytes.optimizer};
    // The block that computes and the one that is fetched ahead, at 16 bits.
    if (zero >= 3 && rules.rebuilds_blocks) memory.blocks = 4.0 * params_of_largest_bucket(rank);
    memory.activations =
        simulation.ranks[size_t(rank.coords.pp)].peak_bytes + recomputed_bytes(plan, rules);
    if (rank.chunks.back().stage.has_head) {
      memory.logits =
          2.0 * kLogitBytes * tokens_of(plan) * double(plan.model.vocab_size) / plan.mesh.tp;
    }
    stages.push_back(memory);
  }
  return stages;
}

TrainerMemory greatest(const std::vector<TrainerMemory>& stages) {
  return *std::max_element(stages.begin(), stages.end(),
                           [](const auto& a, const auto& b) { return a.total() < b.total(); });
}

}  // namespace trireme
