#include "predict/predict_overlap.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/link_cost.h"
#include "compile/unit_price.h"
#include "predict/action_times.h"
#include "predict/predict.h"

namespace trireme {
namespace {

int64_t dp_bytes(const AxisBytes& traffic) {
  for (const auto& [axis, bytes] : traffic) {
    if (axis == "dp") return bytes;
  }
  return 0;
}

// Returns the numbers that decide the bytes of the buckets of an action's units.
std::vector<int64_t> shape_of(const RankPlan& rank, const Action& action) {
  std::vector<int64_t> shape;
  if (action.chunk < 0) return shape;
  for (const PlacedBucket& placed : rank.chunks[size_t(action.chunk)].buckets) {
    const int unit = placed.bucket.unit;
    const bool is_meant = action.num_units == 0 || (unit >= action.first_unit &&
                                                    unit < action.first_unit + action.num_units);
    if (!is_meant) continue;
    const std::vector<int64_t> numbers = numbers_of(placed.bucket);
    shape.push_back(-1);
    shape.insert(shape.end(), numbers.begin(), numbers.end());
  }
  return shape;
}

// The links of data parallelism. Gradients are summed among the ranks that shard the parameters,
// and then among the replicas of these groups, which lie farther apart (hybrid sharding).
class DataLinks {
 public:
  DataLinks(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware)
      : hardware_(hardware),
        grad_factor_(double(hardware.practice.bytes_of_grad(plan.shape.grad)) /
                     double(size_of(plan.shape.grad))) {
    const RankSpan dp = span_of(plan.mesh, MeshAxis::Dp, rank.coords.pp);
    const int64_t shards = rank.zero.level == 0 ? 1 : rank.zero.degree;
    const int64_t replicas = plan.mesh.dp_at(rank.coords.pp) / shards;
    shards_ = {shards, dp.stride};
    replicas_ = {replicas, dp.stride * shards};
    sharding_ = group_link(hardware, shards_);
    replicating_ = group_link(hardware, replicas_);
    // Of a vector of one byte: what a rank sends to scatter it, and to sum its own part.
    const double scattered = 1.0 - 1.0 / double(shards);
    const double summed = 2.0 * (1.0 - 1.0 / double(replicas)) / double(shards);
    scattered_share_ = scattered + summed > 0.0 ? scattered / (scattered + summed) : 0.0;
  }

  double seconds(ActionKind kind, double sent_bytes) const {
    if (kind != ActionKind::ReduceGrad) {
      return collective_s(sharding_, shards_, VectorMove::AllGather, sent_bytes);
    }
    const double bytes = sent_bytes * grad_factor_;
    return collective_s(sharding_, shards_, VectorMove::ReduceScatter, scattered_share_ * bytes) +
           collective_s(replicating_, replicas_, VectorMove::AllReduce,
                        (1.0 - scattered_share_) * bytes);
  }

 private:
  // Made by the communication thread.
  double collective_s(const LinkSpec& link, RankSpan span, VectorMove move,
                      double sent_bytes) const {
    if (sent_bytes <= 0.0) return 0.0;
    const double moved_s = shared_memory_s(hardware_, span, move, sent_bytes);
    return hardware_.background_s +
           std::max(transfer_s(link, sent_bytes), moved_s + link.latency_s);
  }

  const Hardware& hardware_;
  double grad_factor_;
  RankSpan shards_, replicas_;
  LinkSpec sharding_, replicating_;
  double scattered_share_ = 0.0;
};

// The collectives of a trainer that reduces gradients once the last one is computed.
Overlap reduced_at_the_end(const Program& program,
                           const std::function<double(const Action&)>& collective_s) {
  Overlap overlap;
  for (const Action& action : program) {
    const bool is_collective =
        action.kind == ActionKind::ReduceGrad || action.kind == ActionKind::Unshard;
    if (is_collective) overlap.exposed_s += collective_s(action);
  }
  overlap.link_s = overlap.exposed_s;
  return overlap;
}

}  // namespace

Overlap predict_overlap(const RunPlan& plan, const RankPlan& rank, const UnitPrices& prices,
                        const Hardware& hardware, CollectiveBytes& collective_bytes) {
  if (rank.microbatches.is_whole()) return {};
  ActionTimes times(rank, prices);
  const auto compute_s = [&](const Action& action) { return times.seconds(action); };
  // A program repeats a few collectives for many micro-batches, and most of its units are alike, so
  // times are cached.
  std::map<std::tuple<ActionKind, int, int, int>, double> seconds;
  std::map<std::pair<ActionKind, std::vector<int64_t>>, double> seconds_of_shape;
  const DataLinks links(plan, rank, hardware);
  const auto collective_s = [&](const Action& action) {
    const auto [found, is_new] =
        seconds.try_emplace({action.kind, action.chunk, action.first_unit, action.num_units}, 0.0);
    if (!is_new) return found->second;
    const auto [alike, is_new_shape] =
        seconds_of_shape.try_emplace({action.kind, shape_of(rank, action)}, 0.0);
    if (is_new_shape) {
      const std::span<const Action> alone(&action, 1);
      const AxisBytes traffic =
          predict_traffic(plan, rank, hardware.ranks_per_node(), alone, collective_bytes);
      alike->second = links.seconds(action.kind, double(dp_bytes(traffic)));
    }
    found->second = alike->second;
    return found->second;
  };
  if (!hardware.practice.reduces_beside_compute && rank.zero.level < 3) {
    return reduced_at_the_end(rank.program, collective_s);
  }
  return simulate_overlap(rank.program, data_parallel_shape(rank),
                          {compute_s, collective_s, hardware.overlap_share});
}

}  // namespace trireme
