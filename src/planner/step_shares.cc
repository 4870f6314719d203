#include "planner/step_shares.h"

#include <algorithm>
#include <vector>

namespace trireme {

double StepShares::exposed_of(std::string_view axis) const {
  const auto found = std::find(kTrafficAxes.begin(), kTrafficAxes.end(), axis);
  return exposed_s[size_t(found - kTrafficAxes.begin())];
}

StepShares shares_of(std::span<const StepTimes> ranks) {
  StepShares shares;
  if (ranks.empty()) return shares;
  std::vector<double> compute_s;
  for (const StepTimes& rank : ranks) {
    shares.step_s = std::max(shares.step_s, rank.step);
    shares.idle_s += rank.bubble / double(ranks.size());
    for (size_t axis = 0; axis < rank.exposed.size(); ++axis) {
      shares.exposed_s[axis] += rank.exposed[axis] / double(ranks.size());
    }
    compute_s.push_back(rank.compute);
  }
  const auto slowest = std::max_element(compute_s.begin(), compute_s.end());
  shares.slowest = int(slowest - compute_s.begin());
  shares.slowest_compute_s = *slowest;
  std::sort(compute_s.begin(), compute_s.end());
  shares.median_compute_s = compute_s[(compute_s.size() - 1) / 2];
  return shares;
}

}  // namespace trireme
