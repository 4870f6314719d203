#pragma once

#include "graph/keep.h"
#include "schema/model_spec.h"

namespace trireme {

// A layer of a model on a rank of this layout, and what it keeps. All layers of a model, on all
// stages, take the same decision.
struct LayerKeep {
  Graph fused;
  Keep kept;
  // Number of ops of a kind that run again in a layer.
  int num_again(OpKind kind) const;
};
LayerKeep layer_keep(const ModelSpec& model, const StageShape& shape);

}  // namespace trireme
