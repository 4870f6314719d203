#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "graph/keep.h"

namespace trireme {

// Prices the ops that a layer runs again, by their FLOPs and by the bytes that they read and write.
// Like all prices of compute, it is that of one rank that has the whole model.
class AgainPrice {
 public:
  AgainPrice(const RunPlan& plan, const Hardware& hardware);

  // Of one layer and one token, for the values that `again` names (KeepPolicy).
  double seconds_per_token(uint64_t again) const;
  uint64_t all_again() const { return trireme::all_again(layer_); }

 private:
  Graph layer_;                  // fused
  std::vector<double> seconds_;  // [op]
};

// What the layers of a plan with memory.recompute = "fit" run again for one micro-batch.
double again_seconds(const RunPlan& plan, const Hardware& hardware);

}  // namespace trireme
