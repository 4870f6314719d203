#include "planner/predict_overlap.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/predict.h"
#include "planner/price.h"

namespace trireme {
namespace {

// The part of the model's matmuls that some units of a stage have.
double share_of(const ModelSpec& model, const StageSpec& stage, const Action& action) {
  const double layer = double(model.qkv_width() + model.q_width() + model.up_width() + model.d_ff);
  const double head = double(model.vocab_size);
  const int units = num_units(stage);
  const int end = action.num_units == 0 ? units : action.first_unit + action.num_units;
  double work = 0.0;
  for (int unit = action.first_unit; unit < end; ++unit) {
    const bool is_embedding = stage.has_embedding && unit == 0;
    const bool is_head = stage.has_head && unit == units - 1;
    work += is_embedding ? 0.0 : is_head ? head : layer;
  }
  return work / (double(model.layers) * layer + head);
}

int64_t dp_bytes(const AxisBytes& traffic) {
  for (const auto& [axis, bytes] : traffic) {
    if (axis == "dp") return bytes;
  }
  return 0;
}

}  // namespace

Overlap predict_overlap(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware) {
  if (plan.mesh.dp == 1) return {};
  const ComputeCost whole = price_compute(plan, hardware);
  const double split = double(plan.mesh.tp) * plan.mesh.cp;
  const auto compute_s = [&](const Action& action) {
    if (action.chunk < 0) return 0.0;
    const StageSpec& stage = rank.chunks[size_t(action.chunk)].stage;
    const double share = share_of(plan.model, stage, action) / split;
    switch (action.kind) {
      case ActionKind::F:
        return share * whole.forward_s;
      case ActionKind::B:
        return share * whole.backward_input_s;
      case ActionKind::W:
        return share * whole.backward_weight_s;
      case ActionKind::BW:
        return share * (whole.backward_input_s + whole.backward_weight_s);
      default:
        return 0.0;
    }
  };
  // A program repeats few collectives for many micro-batches.
  std::map<std::tuple<ActionKind, int, int, int>, double> seconds;
  const int ranks_per_node = std::max(hardware.ranks_per_node, 1);
  const bool is_inside = plan.num_ranks() <= ranks_per_node;
  const LinkSpec& link = is_inside ? hardware.inside_node : hardware.between_nodes;
  const auto collective_s = [&](const Action& action) {
    const auto [found, is_new] = seconds.try_emplace(
        {action.kind, action.chunk, action.first_unit, action.num_units}, link.latency_s);
    if (is_new && link.bytes_per_s > 0.0) {
      const std::span<const Action> alone(&action, 1);
      const int64_t bytes = dp_bytes(predict_traffic(plan, rank, ranks_per_node, alone));
      found->second += double(bytes) / link.bytes_per_s;
    }
    return found->second;
  };
  return simulate_overlap(rank.program, data_parallel_shape(rank), {compute_s, collective_s});
}

}  // namespace trireme
