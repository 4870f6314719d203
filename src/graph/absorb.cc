#include "graph/absorb.h"

#include <algorithm>

namespace trireme {
namespace {

// The products that make keys without positions and values from one latent, and the op that joins
// the keys with the part that all heads share.
struct Expansion {
  const Op* product = nullptr;
  const Op* concat = nullptr;
  explicit operator bool() const { return product != nullptr; }
};

Expansion expansion_of(const Graph& graph, const Op& attention) {
  const Op* concat = producer_of(graph, attention.inputs[1]);
  if (concat == nullptr || concat->kind != OpKind::Concat) return {};
  const Op* product = producer_of(graph, concat->inputs[0]);
  const std::vector<ValueId> made = {concat->inputs[0], attention.inputs[2]};
  const bool fits =
      product != nullptr && product->kind == OpKind::Linear && product->outputs == made;
  return fits ? Expansion{product, concat} : Expansion{};
}

}  // namespace

Graph absorb(Graph fused) {
  std::vector<bool> is_absorbed(fused.ops.size(), false);
  std::vector<Op> ops = fused.ops;
  for (Op& op : ops) {
    if (op.kind != OpKind::Attention) continue;
    const Expansion expansion = expansion_of(fused, op);
    if (!expansion) continue;
    op.kind = OpKind::LatentAttention;
    op.inputs = {op.inputs[0], expansion.product->inputs.front(), expansion.concat->inputs[1]};
    op.params = expansion.product->params;
    is_absorbed[size_t(expansion.product - fused.ops.data())] = true;
    is_absorbed[size_t(expansion.concat - fused.ops.data())] = true;
  }
  std::vector<Op> kept;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!is_absorbed[i]) kept.push_back(std::move(ops[i]));
  }
  fused.ops = std::move(kept);
  return fused;
}

}  // namespace trireme
