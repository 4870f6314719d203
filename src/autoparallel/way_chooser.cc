#include "autoparallel/way_chooser.h"

#include <algorithm>

namespace trireme {

WayChooser::WayChooser(const std::vector<PlacedUnits>& units,
                       const std::vector<std::vector<UnitWay>>& kinds, double limit_bytes,
                       int in_flight)
    : units_(units), kinds_(kinds), limit_bytes_(limit_bytes), in_flight_(in_flight) {
  chosen_.resize(units.size());
  fastest_after_.assign(units.size() + 1, 0.0);
  for (size_t u = units.size(); u-- > 0;) {
    const auto& ways = kinds[size_t(units[u].kind)];
    fastest_after_[u] = ways.empty()
                            ? kImpossible
                            : fastest_after_[u + 1] + units[u].count * ways.front().cost.seconds;
  }
}

bool WayChooser::run(double& best_s) {
  best_s_ = best_s;
  if (fastest_after_[0] >= best_s_) return false;
  choose(0, 0.0, 0.0, 0.0);
  if (best_.empty() && !units_.empty()) return false;
  best_s = best_s_;
  return true;
}

void WayChooser::choose(size_t u, double seconds, double bytes, double scratch) {
  if (u == units_.size()) {
    best_s_ = seconds;
    best_ = chosen_;
    return;
  }
  for (const UnitWay& way : kinds_[size_t(units_[u].kind)]) {  // the fastest first
    const double count = units_[u].count;
    const double all_s = seconds + count * way.cost.seconds;
    if (all_s + fastest_after_[u + 1] >= best_s_) return;
    const ChoiceLimit in_flight{.in_flight = double(in_flight_)};
    const double all_bytes = bytes + count * in_flight.bytes_of(way.cost);
    const double most_scratch = std::max(scratch, way.scratch_bytes);
    if (all_bytes + most_scratch > limit_bytes_) continue;
    chosen_[u] = &way;
    choose(u + 1, all_s, all_bytes, most_scratch);
  }
}

}  // namespace trireme
