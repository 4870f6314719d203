#pragma once

#include <vector>

#include "autoparallel/stage_plan.h"

namespace trireme {

// Chooses one way of every kind of unit in a stage, so that the sum of their seconds is least and
// their memory fits. Its arguments must outlive it.
class WayChooser {
 public:
  // kinds[k]: the ways of the units of kind k, the fastest first
  WayChooser(const std::vector<PlacedUnits>& units, const std::vector<std::vector<UnitWay>>& kinds,
             double limit_bytes, int in_flight);

  // Returns true if a choice takes less than `best_s`, and sets `best_s` to its time then.
  bool run(double& best_s);
  const std::vector<const UnitWay*>& best() const { return best_; }

 private:
  void choose(size_t u, double seconds, double bytes, double scratch);

  const std::vector<PlacedUnits>& units_;
  const std::vector<std::vector<UnitWay>>& kinds_;
  double limit_bytes_;
  int in_flight_;
  std::vector<double> fastest_after_;
  std::vector<const UnitWay*> chosen_, best_;
  double best_s_ = kImpossible;
};

}  // namespace trireme
