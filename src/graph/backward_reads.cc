#include "graph/backward_reads.h"

#include <algorithm>

namespace trireme {

bool has_weight_grad(const Op& op) { return !op.params.empty(); }

std::vector<ValueId> read_by_backward(const Op& op) {
  switch (op.kind) {
    case OpKind::Norm:
    case OpKind::Scale:
    case OpKind::Linear:
    case OpKind::GroupedLinear:
    case OpKind::Activation:
    case OpKind::Route:
    case OpKind::SoftmaxParts:
    case OpKind::Lookup:
      return op.inputs;
    case OpKind::Attention: {
      std::vector<ValueId> read = op.inputs;
      read.push_back(op.outputs.front());
      return read;
    }
    case OpKind::CrossEntropy:  // fused with the projection; alone it reads nothing that is kept
      return op.params.empty() ? std::vector<ValueId>{} : op.inputs;
    default:  // linear in its input, and without weights
      return {};
  }
}

std::vector<bool> computed_again(const Graph& graph) {
  std::vector<bool> is_needed(graph.values.size(), false);
  for (const Op& op : graph.ops) {
    for (const ValueId value : read_by_backward(op)) is_needed[size_t(value)] = true;
  }
  std::vector<bool> again(graph.ops.size(), false);
  for (size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    const bool is_kept =
        op.kind == OpKind::Route || op.kind == OpKind::Count || op.kind == OpKind::Choose;
    again[i] = !is_kept && std::any_of(op.outputs.begin(), op.outputs.end(),
                                       [&](ValueId value) { return is_needed[size_t(value)]; });
    if (!again[i]) continue;
    for (const ValueId value : op.inputs) is_needed[size_t(value)] = true;
  }
  return again;
}

}  // namespace trireme
