#pragma once

#include <string>
#include <vector>

#include "compile/run_plan.h"

namespace trireme {

// One layer of rank 0 does this with a value for one micro-batch. All layers of a kind do the same.
struct LayerValue {
  std::string name;    // the values of one product together: "attn.wq attn.wk attn.wv"
  int64_t bytes = 0;   // stored from F to W, or saved because they are computed again
  double flops = 0.0;  // of the ops that run again for it, on all ranks that share the layer
  bool is_again = false;
};

// Every value of this layer of the model that is stored or computed again, in the order of the
// graph. The bytes of a value contain the statistics of the op that writes it. A value that has no
// bytes is computed again only because another one needs it.
std::vector<LayerValue> layer_values(const RunPlan& plan, int64_t layer);

}  // namespace trireme
