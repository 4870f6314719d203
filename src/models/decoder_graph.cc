#include "models/decoder_graph.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "graph/absorb.h"
#include "graph/all_passes.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

// Removes the loss. The head then ends with the value that the loss would read.
Graph without_loss(Graph graph) {
  std::vector<Op>& ops = graph.ops;
  const auto loss = std::find_if(ops.begin(), ops.end(),
                                 [](const Op& op) { return op.kind == OpKind::CrossEntropy; });
  if (loss == ops.end()) return graph;
  graph.output = loss->inputs.front();
  ops.erase(loss);
  return graph;
}

}  // namespace

ModelSpec generating_model(ModelSpec model) {
  model = without_modules(model);
  model.capacity_factor = 0.0;
  return model;
}

Graph decoder_graph(Graph unit, const StageShape& shape) {
  return without_loss(absorb(fused_graph(std::move(unit), shape)));
}

std::string head_param(const ModelSpec& model) {
  const Graph head = head_graph(model);
  for (const Op& op : head.ops) {
    if (op.kind == OpKind::SoftmaxParts) return head.params[size_t(op.params.front())].name;
  }
  throw ContractError("the head makes no logits");
}

}  // namespace trireme
