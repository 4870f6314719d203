#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "compile/unit_price.h"

namespace trireme {

// Seconds of the kernels of one rank's actions. A program repeats the same few actions for every
// micro-batch, so each of them is priced once.
class ActionTimes {
 public:
  // `rank` and `prices` must outlive the object.
  ActionTimes(const RankPlan& rank, const UnitPrices& prices);

  // Seconds of F, B, W or BW of the units that the action names; 0 for other kinds.
  double seconds(const Action& action);

 private:
  struct Known {
    int num_units = -1;  // of the action; -1: not priced yet
    ComputeTimes times;
  };

  const RankPlan& rank_;
  const UnitPrices& prices_;
  std::vector<std::vector<Known>> known_;  // [chunk][first unit]
};

}  // namespace trireme
