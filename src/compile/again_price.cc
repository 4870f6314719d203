#include "compile/again_price.h"

#include "compile/kernel_price.h"

namespace trireme {

AgainPrice::AgainPrice(const RunPlan& plan, const Hardware& hardware)
    : num_tokens_(double(plan.model.seq_len)),
      all_again_((uint64_t{1} << again_names(plan.model).size()) - 1) {
  const StageShape shape{.compute = plan.shape.compute};
  const ModelShard whole = shard_model(plan.model, shape);
  for (const LayerRun& kind : layer_kinds(plan.model)) {
    Graph fused = layer_keep(plan.model, {}, kind.first).fused;
    AgainBits bits(plan.model, fused);
    LayerPrice& layer = layers_.emplace_back(
        LayerPrice{double(kind.count) / double(plan.model.layers), std::move(fused), bits, {}});
    for (const OpWork& work : op_works(layer.fused, whole, shape)) {
      layer.seconds.push_back(price_forward(work, shape.compute, hardware));
    }
  }
}

double AgainPrice::seconds_per_token(uint64_t again) const {
  double seconds = 0.0;
  for (const LayerPrice& layer : layers_) {
    const Keep kept = keep(layer.fused, layer.bits.policy(again));
    for (size_t op = 0; op < layer.seconds.size(); ++op) {
      if (kept.runs_again[op]) seconds += layer.share * layer.seconds[op];
    }
  }
  return seconds / num_tokens_;
}

}  // namespace trireme
