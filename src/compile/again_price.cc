#include "compile/again_price.h"

#include "compile/price.h"
#include "graph/layer_keep.h"

namespace trireme {

AgainPrice::AgainPrice(const RunPlan& plan, const Hardware& hardware)
    : layer_(layer_keep(plan.model, {}).fused), num_tokens_(double(plan.model.seq_len)) {
  const StageShape shape{.compute = plan.shape.compute};
  for (const OpWork& work : op_works(layer_, shard_model(plan.model, shape), shape)) {
    seconds_.push_back(price_forward(work, shape.compute, hardware));
  }
}

double AgainPrice::seconds_per_token(uint64_t again) const {
  const Keep kept = keep(layer_, {Recompute::Fit, again});
  double seconds = 0.0;
  for (size_t op = 0; op < seconds_.size(); ++op) {
    if (kept.runs_again[op]) seconds += seconds_[op];
  }
  return seconds / num_tokens_;
}

}  // namespace trireme
