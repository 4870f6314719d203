#include "autoparallel/knapsack_chooser.h"

#include <algorithm>
#include <cmath>

namespace trireme {

KnapsackChooser::KnapsackChooser(const std::vector<PlacedUnits>& units,
                                 const std::vector<KindCosts>& kinds, double limit_bytes,
                                 double tolerance)
    : units_(units),
      kinds_(kinds),
      limit_bytes_(limit_bytes),
      share_(std::cbrt(1.0 + tolerance) - 1.0) {}

bool KnapsackChooser::run(double& best_s) {
  best_s_ = best_s;
  double least_s = 0.0;
  WayKnapsack::Picks fastest;
  for (size_t u = 0; u < units_.size(); ++u) {
    if (kind(u).costs.empty()) return false;
    fastest.push_back(&kind(u).costs.front());
    least_s += units_[u].count * fastest.back()->seconds;
  }
  if (least_s >= dropped_from_s()) return false;
  if (!take(fastest)) {
    list_scratch();
    take_good_picks();
    search(0, scratch_bytes_.size() - 1);
  }
  if (best_s_ >= best_s) return false;
  best_s = best_s_;
  return true;
}

// Returns true if the picks fit. They become the answer if they are faster than it.
bool KnapsackChooser::take(const WayKnapsack::Picks& picks) {
  ++num_sums_;
  double seconds = 0.0, bytes = 0.0, scratch = 0.0;
  for (size_t u = 0; u < units_.size(); ++u) {
    const double count = units_[u].count;
    seconds += count * picks[u]->seconds;
    bytes += count * picks[u]->bytes;
    scratch = std::max(scratch, picks[u]->scratch_bytes);
  }
  if (bytes + scratch > limit_bytes_) return false;
  if (seconds >= best_s_) return true;
  best_s_ = seconds;
  best_.clear();
  for (const WayCost* pick : picks) best_.push_back(pick->way);
  return true;
}

// Lists the scratch of all ways that is not less than the least one of any kind.
void KnapsackChooser::list_scratch() {
  double least = 0.0;
  for (size_t u = 0; u < units_.size(); ++u) {
    double of_kind = kImpossible;
    for (const WayCost& cost : kind(u).costs) {
      of_kind = std::min(of_kind, cost.scratch_bytes);
      scratch_bytes_.push_back(cost.scratch_bytes);
    }
    least = std::max(least, of_kind);
  }
  std::erase_if(scratch_bytes_, [&](double bytes) { return bytes < least; });
  std::sort(scratch_bytes_.begin(), scratch_bytes_.end());
  scratch_bytes_.erase(std::unique(scratch_bytes_.begin(), scratch_bytes_.end()),
                       scratch_bytes_.end());
}

// Returns the kinds of the stage with the ways that have at most so much scratch.
std::vector<KindCosts> KnapsackChooser::kinds_within(double scratch_bytes) const {
  std::vector<KindCosts> within;
  for (size_t u = 0; u < units_.size(); ++u) {
    within.push_back(within_scratch(kind(u), scratch_bytes, share_));
  }
  return within;
}

std::vector<WayKnapsack::Item> KnapsackChooser::items_of(
    const std::vector<KindCosts>& kinds) const {
  std::vector<WayKnapsack::Item> items;
  for (size_t u = 0; u < units_.size(); ++u) {
    items.push_back({double(units_[u].count), &kinds[u]});
  }
  return items;
}

// Finds a first answer, so that most ranges need no search: good picks for some numbers of the
// list.
void KnapsackChooser::take_good_picks() {
  constexpr size_t kTries = 8;
  const size_t step = std::max<size_t>(1, scratch_bytes_.size() / kTries);
  for (size_t i = 0; i < scratch_bytes_.size(); i += step) {
    const std::vector<KindCosts> within = kinds_within(scratch_bytes_[i]);
    const WayKnapsack knapsack(items_of(within), limit_bytes_ - scratch_bytes_[i], share_);
    if (knapsack.lower_bound_s() < dropped_from_s()) take(knapsack.good_picks());
  }
}

void KnapsackChooser::search(size_t first, size_t last) {
  const std::vector<KindCosts> within = kinds_within(scratch_bytes_[last]);
  WayKnapsack knapsack(items_of(within), limit_bytes_ - scratch_bytes_[first], share_);
  if (knapsack.lower_bound_s() >= dropped_from_s()) return;
  take(knapsack.good_picks());
  if (knapsack.lower_bound_s() >= dropped_from_s()) return;
  const WayKnapsack::Picks faster = knapsack.faster_than(best_s_, dropped_from_s());
  num_sums_ += knapsack.num_sums();
  if (faster.empty() || take(faster) || first == last) return;
  const size_t middle = (first + last) / 2;
  search(first, middle);
  search(middle + 1, last);
}

}  // namespace trireme
