#pragma once

#include <string>
#include <vector>

#include "graph/keep.h"
#include "schema/model_spec.h"

namespace trireme {

// A layer on a rank of this layout, and what it keeps. All layers of a kind, on all stages, take
// the same decision.
struct LayerKeep {
  Graph fused;
  Keep kept;
  // Number of ops of a kind that run again.
  int num_again(OpKind kind) const;
};
LayerKeep layer_keep(const ModelSpec& model, const StageShape& shape, int64_t layer);

// The pieces for which there is a choice in any kind of layer, by the name of what writes them.
// With Recompute::Fit, bit i of StageShape::again stands for the piece with the i-th name, in all
// layers that have it.
std::vector<std::string> again_names(const ModelSpec& model);
// Returns the policy of one fused layer that follows from such a choice.
KeepPolicy policy_of_layer(const ModelSpec& model, const StageShape& shape, const Graph& fused);

}  // namespace trireme
