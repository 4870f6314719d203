#pragma once

#include <cstdint>
#include <vector>

#include "autoparallel/way_knapsack.h"

namespace trireme {

// Chooses one way of every kind of unit in a stage, so that the sum of their seconds is least and
// their memory fits: the sum of their bytes and the largest scratch. It is for stages of many
// kinds, of which a WayChooser would try too many choices.
//
// The largest scratch of a choice is that of one of its ways. The chooser halves the range of these
// numbers, and drops a range whose lower bound is not better than the best known choice: the ways
// have the scratch of its upper end, but the memory that its lower end leaves. This is a knapsack.
// If the best choice of the knapsack fits, no other choice of the range is better.
class KnapsackChooser {
 public:
  // kinds[k]: the ways of the units of kind k. The arguments must outlive the chooser. The answer
  // takes at most 1 + tolerance times as long as the best one; without a tolerance it is exact.
  KnapsackChooser(const std::vector<PlacedUnits>& units, const std::vector<KindCosts>& kinds,
                  double limit_bytes, double tolerance = 0.0);

  // Returns true if it finds a choice that takes less than `best_s`, and sets `best_s` to its time
  // then.
  bool run(double& best_s);
  // [kind of unit in the stage] The index of its way.
  const std::vector<int>& best() const { return best_; }
  // Choices and partial sums that `run` has compared.
  int64_t num_sums() const { return num_sums_; }

 private:
  const KindCosts& kind(size_t u) const { return kinds_[size_t(units_[u].kind)]; }
  double dropped_from_s() const { return best_s_ / (1.0 + share_); }
  bool take(const WayKnapsack::Picks& picks);
  void list_scratch();
  void take_good_picks();
  void search(size_t first, size_t last);
  std::vector<KindCosts> kinds_within(double scratch_bytes) const;
  std::vector<WayKnapsack::Item> items_of(const std::vector<KindCosts>& kinds) const;

  const std::vector<PlacedUnits>& units_;
  const std::vector<KindCosts>& kinds_;
  double limit_bytes_;
  // The part of the tolerance that each of these may use: choosing among ways, choosing among sums,
  // and dropping sums.
  double share_;
  std::vector<double> scratch_bytes_;  // that a choice may have, rising
  double best_s_ = kImpossible;
  std::vector<int> best_;
  int64_t num_sums_ = 0;
};

}  // namespace trireme
