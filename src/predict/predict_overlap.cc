#include "predict/predict_overlap.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/stage_cost.h"
#include "predict/predict.h"

namespace trireme {
namespace {

int64_t dp_bytes(const AxisBytes& traffic) {
  for (const auto& [axis, bytes] : traffic) {
    if (axis == "dp") return bytes;
  }
  return 0;
}

// Identifies the buckets of an action's units by the element counts of their tensors, which decide
// their bytes.
std::vector<int64_t> shape_of(const RankPlan& rank, const Action& action) {
  std::vector<int64_t> shape;
  if (action.chunk < 0) return shape;
  for (const PlacedBucket& placed : rank.chunks[size_t(action.chunk)].buckets) {
    const int unit = placed.bucket.unit;
    const bool is_meant = action.num_units == 0 || (unit >= action.first_unit &&
                                                    unit < action.first_unit + action.num_units);
    if (!is_meant) continue;
    shape.push_back(placed.bucket.is_of_experts ? -2 : -1);
    shape.push_back(placed.bucket.params().count);
    for (const BucketTensor& tensor : placed.bucket.tensors) shape.push_back(tensor.num_elements);
  }
  return shape;
}

}  // namespace

Overlap predict_overlap(const RunPlan& plan, const RankPlan& rank, const ComputeCost& whole,
                        const Hardware& hardware, CollectiveBytes& collective_bytes) {
  if (plan.mesh.dp == 1) return {};
  const auto compute_s = [&](const Action& action) {
    if (action.chunk < 0) return 0.0;
    const StageSpec& stage = rank.chunks[size_t(action.chunk)].stage;
    const StageTimes times = stage_times(whole, share_of(plan.model, stage, action), plan.mesh);
    switch (action.kind) {
      case ActionKind::F:
        return times.f_s;
      case ActionKind::B:
        return times.b_s;
      case ActionKind::W:
        return times.w_s;
      case ActionKind::BW:
        return times.b_s + times.w_s;
      default:
        return 0.0;
    }
  };
  // A program repeats a few collectives for many micro-batches, and most of its units are alike, so
  // times are cached.
  std::map<std::tuple<ActionKind, int, int, int>, double> seconds;
  std::map<std::pair<ActionKind, std::vector<int64_t>>, double> seconds_of_shape;
  const int ranks_per_node = std::max(hardware.ranks_per_node, 1);
  const bool is_inside = plan.num_ranks() <= ranks_per_node;
  const LinkSpec& link = is_inside ? hardware.inside_node : hardware.between_nodes;
  const auto collective_s = [&](const Action& action) {
    const auto [found, is_new] = seconds.try_emplace(
        {action.kind, action.chunk, action.first_unit, action.num_units}, link.latency_s);
    if (!is_new || link.bytes_per_s <= 0.0) return found->second;
    const auto [alike, is_new_shape] =
        seconds_of_shape.try_emplace({action.kind, shape_of(rank, action)}, found->second);
    if (is_new_shape) {
      const std::span<const Action> alone(&action, 1);
      const int64_t bytes =
          dp_bytes(predict_traffic(plan, rank, ranks_per_node, alone, collective_bytes));
      alike->second += double(bytes) / link.bytes_per_s;
    }
    found->second = alike->second;
    return found->second;
  };
  return simulate_overlap(rank.program, data_parallel_shape(rank), {compute_s, collective_s});
}

}  // namespace trireme
