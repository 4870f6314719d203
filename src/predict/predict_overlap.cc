#include "predict/predict_overlap.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/unit_price.h"
#include "predict/action_times.h"
#include "predict/data_links.h"
#include "predict/predict.h"

namespace trireme {
namespace {

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
      const AxisBytes traffic = predict_traffic(plan, rank, alone, collective_bytes);
      alike->second = links.seconds(action.kind, double(bytes_on_axis(traffic, "dp")));
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
