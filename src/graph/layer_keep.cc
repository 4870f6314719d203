#include "graph/layer_keep.h"

#include <utility>

#include "graph/fuse.h"
#include "graph/model_graphs.h"
#include "graph/place.h"
#include "graph/stack.h"

namespace trireme {

int LayerKeep::num_again(OpKind kind) const {
  int count = 0;
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    if (fused.ops[i].kind == kind && kept.runs_again[i]) ++count;
  }
  return count;
}

LayerKeep layer_keep(const ModelSpec& model, const StageShape& shape) {
  Graph fused = fuse(place(stack(layer_graph(model, 0)), shape));
  Keep kept = keep(fused, keep_policy_of(shape));
  return {std::move(fused), std::move(kept)};
}

}  // namespace trireme
