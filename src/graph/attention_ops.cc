// The ops of GraphBuilder for attention.

#include <algorithm>
#include <utility>

#include "graph/graph_builder.h"

namespace trireme {

ValueId GraphBuilder::rope(ValueId x) {
  return add_op(OpKind::Rope, graph_.values[size_t(x)].name + ".rope", {x}, {}, dims_of(x));
}

ValueId GraphBuilder::concat(const std::string& name, ValueId x, ValueId y, Axis columns) {
  std::vector<Dim> dims = dims_of(x);
  dims.back() = columns;
  return add_op(OpKind::Concat, name, {x, y}, {}, std::move(dims));
}

void GraphBuilder::mark_logit_side(ValueId value, LogitSide side) {
  const auto makes = [&](const Op& op) {
    return std::find(op.outputs.begin(), op.outputs.end(), value) != op.outputs.end();
  };
  const auto op = std::find_if(graph_.ops.begin(), graph_.ops.end(), makes);
  if (op == graph_.ops.end()) return;
  // Behind the first input of a concatenation stands a part that all heads share.
  if (op->kind == OpKind::Rope || op->kind == OpKind::Concat) {
    return mark_logit_side(op->inputs.front(), side);
  }
  if (op->kind != OpKind::Linear) return;
  for (const ParamId id : op->params) graph_.params[size_t(id)].logit_side = side;
}

ValueId GraphBuilder::choose_keys(const std::string& name, ValueId q, ValueId k, ValueId weights) {
  return add_op(OpKind::ChooseKeys, name, {q, k, weights}, {}, {Axis::Token, Axis::ChosenKey},
                Numbers::I32);
}

ValueId GraphBuilder::attention(const std::string& name, ValueId q, ValueId k, ValueId v,
                                ValueId chosen) {
  mark_logit_side(q, LogitSide::Query);
  mark_logit_side(k, LogitSide::Key);
  std::vector<Dim> dims = dims_of(q);
  dims.back() = dims_of(v).back();
  std::vector<ValueId> inputs = {q, k, v};
  if (chosen >= 0) inputs.push_back(chosen);
  return add_op(OpKind::Attention, name, std::move(inputs), {}, std::move(dims));
}

}  // namespace trireme
