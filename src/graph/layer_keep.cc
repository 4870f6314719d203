#include "graph/layer_keep.h"

#include <algorithm>
#include <utility>

#include "graph/all_passes.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

std::vector<std::string> names_of_choices(const Graph& fused) {
  std::vector<std::string> names;
  for (const KeepChoice& choice : keep_choices(fused)) {
    names.push_back(fused.values[size_t(choice.values.front())].name);
  }
  return names;
}

}  // namespace

int LayerKeep::num_again(OpKind kind) const {
  int count = 0;
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    if (fused.ops[i].kind == kind && kept.runs_again[i]) ++count;
  }
  return count;
}

LayerKeep layer_keep(const ModelSpec& model, const StageShape& shape, int64_t layer) {
  Graph fused = fused_graph(layer_graph(model, layer), shape);
  Keep kept = keep(fused, policy_of_layer(model, shape, fused));
  return {std::move(fused), std::move(kept)};
}

std::vector<std::string> again_names(const ModelSpec& model) {
  std::vector<std::string> all;
  for (const LayerRun& kind : layer_kinds(model)) {
    for (std::string& name : names_of_choices(fused_graph(layer_graph(model, kind.first), {}))) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
    }
  }
  return all;
}

AgainBits::AgainBits(const ModelSpec& model, const Graph& fused) {
  const std::vector<std::string> own = names_of_choices(fused);
  // The layout decides which values attention on latents has.
  const bool is_named_by_itself = layer_kinds(model).size() == 1 && !model.has_latents();
  const std::vector<std::string> all = is_named_by_itself ? own : again_names(model);
  for (const std::string& name : own) {
    bit_of_choice_.push_back(int(std::find(all.begin(), all.end(), name) - all.begin()));
  }
}

KeepPolicy AgainBits::policy(uint64_t again) const {
  KeepPolicy policy{Recompute::Fit};
  for (size_t i = 0; i < bit_of_choice_.size(); ++i) {
    if ((again >> bit_of_choice_[i]) & 1) policy.again |= uint64_t{1} << i;
  }
  return policy;
}

KeepPolicy policy_of_layer(const ModelSpec& model, const StageShape& shape, const Graph& fused) {
  if (shape.recompute != Recompute::Fit) return keep_policy_of(shape);
  return AgainBits(model, fused).policy(shape.again);
}

}  // namespace trireme
