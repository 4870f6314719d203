#include "planner/memory_as.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/simulate.h"

namespace trireme {
namespace {

constexpr double kLogitBytes = 4.0;
constexpr double kDropoutMaskBytes = 1.0;

// Refuses what these rules do not describe.
Status check_training(const RunConfig& config) {
  if (config.model.lora_rank > 0) {
    return infeasible(
        fmt::format("model.lora_rank = {}: what other trainers keep of adapters is not described; "
                    "set model.lora_rank = 0",
                    config.model.lora_rank));
  }
  if (!config.optim.frozen.empty()) {
    return infeasible(fmt::format(
        "optim.frozen = \"{}\": what other trainers keep of frozen parameters is not described; "
        "set optim.frozen = \"\"",
        config.optim.frozen));
  }
  if (config.optim.name != OptimizerKind::AdamW) {
    return infeasible(fmt::format(
        "optim.name = \"{}\": what other trainers keep is described for AdamW alone; set "
        "optim.name = \"adamw\"",
        name_of(config.optim.name)));
  }
  return Done{};
}

Status check_offload(const ParallelConfig& parallel, OffloadChoice offload,
                     const TrainerRules& rules) {
  const auto refused = [&](std::string_view why, std::string_view remedy) {
    return infeasible(
        fmt::format("memory.offload = \"{}\": {}; {}", name_of(offload), why, remedy));
  };
  if (offload == OffloadChoice::Optimizer && !rules.offloads_optimizer) {
    return refused("this trainer offloads parameters together with the optimizer",
                   "set memory.offload = \"all\" or \"none\"");
  }
  if (offload == OffloadChoice::All && !rules.offloads_all) {
    return refused("this trainer offloads the optimizer alone",
                   "set memory.offload = \"optimizer\" or \"none\"");
  }
  if (offload == OffloadChoice::Optimizer && parallel.zero == 0) {
    return refused("this trainer offloads an optimizer whose state is shared out",
                   "set parallel.zero = 1 or memory.offload = \"none\"");
  }
  if (offload == OffloadChoice::All && parallel.zero < 3) {
    return refused("this trainer offloads parameters that it gathers block by block",
                   "set parallel.zero = 3 or memory.offload = \"none\"");
  }
  return Done{};
}

// Returns the bytes that stay on the device. A gradient goes to the host with the state that it
// updates as soon as it is reduced to the rank's own part, which begins with level 2.
StateBytes on_device(StateBytes bytes, OffloadChoice offload, int zero) {
  if (offload == OffloadChoice::None) return bytes;
  bytes.optimizer = 0.0;
  if (zero >= 2) bytes.grads = 0.0;
  if (offload == OffloadChoice::All) bytes.params = 0.0;
  return bytes;
}

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
  TRIREME_TRY_DONE(check_training(plan.config));
  return check_offload(plan.config.parallel, plan.config.memory.offload, rules);
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
  const StateBytes bytes = on_device(rules.state.shared(zero, plan.mesh.dp * plan.mesh.cp),
                                     plan.config.memory.offload, zero);
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
