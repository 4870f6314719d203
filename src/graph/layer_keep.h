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
// Which bits of StageShape::again are the choices of one kind of layer. It takes the graphs of all
// kinds, so a loop over many values of `again` makes it once.
class AgainBits {
 public:
  AgainBits(const ModelSpec& model, const Graph& fused);
  // The policy of the layer, with Recompute::Fit.
  KeepPolicy policy(uint64_t again) const;

 private:
  std::vector<int> bit_of_choice_;
};

// Returns the policy of one fused layer on a rank of this shape.
KeepPolicy policy_of_layer(const ModelSpec& model, const StageShape& shape, const Graph& fused);

}  // namespace trireme
