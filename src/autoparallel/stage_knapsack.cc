#include "autoparallel/stage_knapsack.h"

#include <algorithm>

#include "autoparallel/knapsack_chooser.h"

namespace trireme {

const std::vector<WayBounds>& StageKnapsack::meshes_with(int in_flight) {
  const auto [known, is_new] = with_.try_emplace(in_flight);
  for (size_t mesh = 0; is_new && mesh < meshes_.size(); ++mesh) {
    std::vector<KindCosts> kinds;
    for (const std::vector<UnitWay>& ways : meshes_[mesh].kinds) {
      kinds.push_back(kind_costs(ways, in_flight));
    }
    known->second.emplace_back(std::move(kinds));
  }
  return known->second;
}

SecondsBounds StageKnapsack::bounds(const std::vector<PlacedUnits>& units, int in_flight) {
  SecondsBounds least{kImpossible, kImpossible};
  for (const WayBounds& mesh : meshes_with(in_flight)) {
    const SecondsBounds own = mesh.of(units, limit_bytes_);
    least.lower = std::min(least.lower, own.lower);
    least.upper = std::min(least.upper, own.upper);
  }
  return least;
}

StageKnapsack::Choice StageKnapsack::choose(const std::vector<PlacedUnits>& units, int in_flight) {
  const std::vector<WayBounds>& meshes = meshes_with(in_flight);
  std::vector<std::pair<double, size_t>> order;  // (lower bound, mesh)
  for (size_t mesh = 0; mesh < meshes.size(); ++mesh) {
    const double lower_s = meshes[mesh].of(units, limit_bytes_).lower;
    if (lower_s < kImpossible) order.emplace_back(lower_s, mesh);
  }
  std::sort(order.begin(), order.end());
  Choice choice;
  for (const auto& [lower_s, mesh] : order) {
    if (lower_s * (1.0 + tolerance_) >= choice.seconds) break;
    KnapsackChooser chooser(units, meshes[mesh].kinds(), limit_bytes_, tolerance_);
    if (!chooser.run(choice.seconds)) continue;
    choice.mesh = int(mesh);
    choice.ways = chooser.best();
  }
  return choice;
}

bool StageKnapsack::fits(const std::vector<PlacedUnits>& units, const Choice& choice,
                         int in_flight) const {
  const ChoiceLimit limit{.in_flight = double(in_flight)};
  double bytes = 0.0, scratch = 0.0;
  for (size_t u = 0; u < units.size(); ++u) {
    const UnitWay& way =
        meshes_[size_t(choice.mesh)].kinds[size_t(units[u].kind)][size_t(choice.ways[u])];
    bytes += units[u].count * limit.bytes_of(way.cost);
    scratch = std::max(scratch, way.scratch_bytes);
  }
  return bytes + scratch <= limit_bytes_;
}

}  // namespace trireme
