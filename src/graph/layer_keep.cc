#include "graph/layer_keep.h"

#include <utility>

#include "graph/all_passes.h"
#include "graph/model_graphs.h"

namespace trireme {

int LayerKeep::num_again(OpKind kind) const {
  int count = 0;
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    if (fused.ops[i].kind == kind && kept.runs_again[i]) ++count;
  }
  return count;
}

LayerKeep layer_keep(const ModelSpec& model, const StageShape& shape) {
  Graph fused = fused_graph(layer_graph(model, 0), shape);
  Keep kept = keep(fused, keep_policy_of(shape));
  return {std::move(fused), std::move(kept)};
}

}  // namespace trireme
