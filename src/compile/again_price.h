#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "graph/layer_keep.h"

namespace trireme {

// Prices the ops that layers run again, as if one rank had the whole model: so the order of sets of
// values by their price does not depend on the layout.
class AgainPrice {
 public:
  AgainPrice(const RunPlan& plan, const Hardware& hardware);

  // Of a layer and a token, on average over the layers, for the values that `again` names
  // (StageShape::again).
  double seconds_per_token(uint64_t again) const;
  uint64_t all_again() const { return all_again_; }

 private:
  struct LayerPrice {
    double share = 0.0;  // of the layers
    Graph fused;
    AgainBits bits;
    std::vector<double> seconds;  // [op]
  };
  std::vector<LayerPrice> layers_;  // [kind]
  double num_tokens_;               // of the priced sequence
  uint64_t all_again_;
};

}  // namespace trireme
