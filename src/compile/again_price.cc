#include "compile/again_price.h"

#include "compile/kernel_price.h"
#include "graph/layer_keep.h"

namespace trireme {

AgainPrice::AgainPrice(const RunPlan& plan, const Hardware& hardware)
    : model_(plan.model),
      num_tokens_(double(plan.model.seq_len)),
      all_again_((uint64_t{1} << again_names(plan.model).size()) - 1) {
  const StageShape shape{.compute = plan.shape.compute};
  const ModelShard whole = shard_model(model_, shape);
  for (const LayerRun& kind : layer_kinds(model_)) {
    LayerPrice& layer = layers_.emplace_back();
    layer.share = double(kind.count) / double(model_.layers);
    layer.fused = layer_keep(model_, {}, kind.first).fused;
    for (const OpWork& work : op_works(layer.fused, whole, shape)) {
      layer.seconds.push_back(price_forward(work, shape.compute, hardware));
    }
  }
}

double AgainPrice::seconds_per_token(uint64_t again) const {
  StageShape shape;
  shape.recompute = Recompute::Fit;
  shape.again = again;
  double seconds = 0.0;
  for (const LayerPrice& layer : layers_) {
    const Keep kept = keep(layer.fused, policy_of_layer(model_, shape, layer.fused));
    for (size_t op = 0; op < layer.seconds.size(); ++op) {
      if (kept.runs_again[op]) seconds += layer.share * layer.seconds[op];
    }
  }
  return seconds / num_tokens_;
}

}  // namespace trireme
