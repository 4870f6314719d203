#include "planner/step_shares.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/order_statistics.h"

namespace trireme {

double StepShares::exposed_of(std::string_view axis) const {
  const auto found = std::find(kTrafficAxes.begin(), kTrafficAxes.end(), axis);
  return exposed_s[size_t(found - kTrafficAxes.begin())];
}

StepShares shares_of(std::span<const RankStep> ranks) {
  StepShares shares;
  if (ranks.empty()) return shares;
  std::map<int, std::vector<double>> compute_s;  // [stage]
  for (const auto& [stage, time] : ranks) {
    shares.step_s = std::max(shares.step_s, time.step);
    shares.idle_s += time.bubble / double(ranks.size());
    for (size_t axis = 0; axis < time.exposed.size(); ++axis) {
      shares.exposed_s[axis] += time.exposed[axis] / double(ranks.size());
    }
    compute_s[stage].push_back(time.compute);
  }
  std::map<int, double> of_stage;
  std::vector<double> of_stages;
  for (const auto& [stage, seconds] : compute_s) {
    of_stages.push_back(of_stage[stage] = lower_median(seconds));
    if (of_stage[stage] > shares.stage.compute_s) shares.stage = {stage, of_stage[stage], 0.0};
  }
  shares.stage.median_s = lower_median(of_stages);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Slower slower{int(rank), ranks[rank].time.compute, of_stage[ranks[rank].stage]};
    if (rank == 0 || slower.more_s() > shares.rank.more_s()) shares.rank = slower;
  }
  return shares;
}

}  // namespace trireme
