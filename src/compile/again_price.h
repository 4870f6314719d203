#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "graph/keep.h"

namespace trireme {

// Prices the ops that a layer runs again, as if one rank had the whole model: so the order of sets
// of values by their price does not depend on the layout.
class AgainPrice {
 public:
  AgainPrice(const RunPlan& plan, const Hardware& hardware);

  // Of one layer and one token, for the values that `again` names (KeepPolicy).
  double seconds_per_token(uint64_t again) const;
  uint64_t all_again() const { return trireme::all_again(layer_); }

 private:
  Graph layer_;                  // fused
  double num_tokens_;            // of the priced sequence
  std::vector<double> seconds_;  // [op]
};

}  // namespace trireme
