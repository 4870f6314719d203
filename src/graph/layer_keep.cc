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

KeepPolicy policy_of_layer(const ModelSpec& model, const StageShape& shape, const Graph& fused) {
  const KeepPolicy of_model = keep_policy_of(shape);
  if (layer_kinds(model).size() == 1 || shape.recompute != Recompute::Fit) return of_model;
  const std::vector<std::string> all = again_names(model), own = names_of_choices(fused);
  KeepPolicy policy{shape.recompute};
  for (size_t i = 0; i < own.size(); ++i) {
    const auto bit = std::find(all.begin(), all.end(), own[i]) - all.begin();
    if ((of_model.again >> bit) & 1) policy.again |= uint64_t{1} << i;
  }
  return policy;
}

}  // namespace trireme
