#include "graph/latent_expansion.h"

namespace trireme {

LatentExpansion latent_expansion(const Graph& graph, const Op& attention) {
  const Op* concat = producer_of(graph, attention.inputs[1]);
  if (concat == nullptr || concat->kind != OpKind::Concat) return {};
  const Op* product = producer_of(graph, concat->inputs[0]);
  const std::vector<ValueId> made = {concat->inputs[0], attention.inputs[2]};
  const bool fits =
      product != nullptr && product->kind == OpKind::Linear && product->outputs == made;
  return fits ? LatentExpansion{product, concat} : LatentExpansion{};
}

Graph join_latent_expansions(
    Graph graph, const std::function<bool(const Op& attention, const LatentExpansion&)>& takes) {
  std::vector<bool> is_joined(graph.ops.size(), false);
  std::vector<Op> ops = graph.ops;
  for (Op& op : ops) {
    if (op.kind != OpKind::Attention) continue;
    const LatentExpansion expansion = latent_expansion(graph, op);
    if (!expansion || !takes(op, expansion)) continue;
    op.kind = OpKind::LatentAttention;
    op.inputs = {op.inputs[0], expansion.product->inputs.front(), expansion.concat->inputs[1]};
    op.params = expansion.product->params;
    op.adapters = expansion.product->adapters;
    is_joined[size_t(expansion.product - graph.ops.data())] = true;
    is_joined[size_t(expansion.concat - graph.ops.data())] = true;
  }
  std::vector<Op> kept;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!is_joined[i]) kept.push_back(std::move(ops[i]));
  }
  graph.ops = std::move(kept);
  return graph;
}

}  // namespace trireme
