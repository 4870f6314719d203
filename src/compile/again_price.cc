#include "compile/again_price.h"

#include "compile/price.h"
#include "graph/forward_work.h"
#include "graph/layer_keep.h"

namespace trireme {
namespace {

Graph layer_of_one_rank(const RunPlan& plan) { return layer_keep(plan.model, {}).fused; }

}  // namespace

AgainPrice::AgainPrice(const RunPlan& plan, const Hardware& hardware)
    : layer_(layer_of_one_rank(plan)) {
  const double peak = peak_flops(plan, hardware);
  for (const Op& op : layer_.ops) {
    const ForwardWork work = forward_work(layer_, op, plan.model);
    const double bytes = work.elements * double(size_of(plan.shape.compute));
    seconds_.push_back(work.matmul_flops / (peak * hardware.matmul_share) +
                       work.attention_flops / (peak * hardware.attention_share) +
                       bytes / hardware.memory_bytes_per_s);
  }
}

double AgainPrice::seconds_per_token(uint64_t again) const {
  const Keep kept = keep(layer_, {Recompute::Fit, again});
  double seconds = 0.0;
  for (size_t op = 0; op < seconds_.size(); ++op) {
    if (kept.runs_again[op]) seconds += seconds_[op];
  }
  return seconds;
}

double again_seconds(const RunPlan& plan, const Hardware& hardware) {
  if (plan.shape.again == 0) return 0.0;
  const double tokens = double(plan.shape.micro_sequences * plan.model.seq_len);
  return tokens * double(plan.model.layers) *
         AgainPrice(plan, hardware).seconds_per_token(plan.shape.again);
}

}  // namespace trireme
