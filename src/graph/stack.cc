#include "graph/stack.h"

#include <algorithm>
#include <utility>

#include "graph/op_placement.h"

namespace trireme {
namespace {

std::string_view module_of(const Op& op) {
  return std::string_view(op.name).substr(0, op.name.rfind('.') + 1);
}

bool is_in_parts(const Graph& graph, ValueId value) {
  const std::span<const Dim> columns = graph.values[size_t(value)].column_dims();
  return std::any_of(columns.begin(), columns.end(), is_cut);
}

// A product whose output the tp ranks make in parts is not stacked with one that each of them makes
// whole.
bool stacks_on(const Graph& graph, const Op& first, const Op& op) {
  return first.kind == OpKind::Linear && op.kind == OpKind::Linear && first.inputs == op.inputs &&
         module_of(first) == module_of(op) &&
         is_in_parts(graph, first.outputs.front()) == is_in_parts(graph, op.outputs.front());
}

// Parameters of the joined op, matrices first, take the places that its parameters had. Adapters
// stay where they are.
void bring_together(Graph& graph, Op& joined) {
  const auto adapters =
      std::stable_partition(joined.params.begin(), joined.params.end(),
                            [&](ParamId id) { return !graph.params[size_t(id)].is_adapter; });
  const std::vector<ParamId> of_adapters(adapters, joined.params.end());
  joined.params.erase(adapters, joined.params.end());
  std::stable_partition(joined.params.begin(), joined.params.end(),
                        [&](ParamId id) { return graph.params[size_t(id)].is_matrix(); });
  std::vector<ParamId> places = joined.params;
  std::sort(places.begin(), places.end());
  std::vector<Param> ordered;
  for (size_t i = 0; i < joined.params.size(); ++i) {
    Param param = graph.params[size_t(joined.params[i])];
    param.adjoins_previous = i > 0 && param.is_matrix() == ordered.back().is_matrix();
    ordered.push_back(std::move(param));
  }
  for (size_t i = 0; i < places.size(); ++i)
    graph.params[size_t(places[i])] = std::move(ordered[i]);
  joined.params = std::move(places);
  joined.params.insert(joined.params.end(), of_adapters.begin(), of_adapters.end());
}

}  // namespace

Graph stack(Graph graph) {
  std::vector<Op> ops;
  for (const Op& op : graph.ops) {
    const auto first = std::find_if(
        ops.begin(), ops.end(), [&](const Op& earlier) { return stacks_on(graph, earlier, op); });
    if (first == ops.end()) {
      ops.push_back(op);
      continue;
    }
    first->params.insert(first->params.end(), op.params.begin(), op.params.end());
    for (Adapter adapter : op.adapters) {
      adapter.output += first->outputs.size();
      first->adapters.push_back(adapter);
    }
    first->outputs.insert(first->outputs.end(), op.outputs.begin(), op.outputs.end());
  }
  for (Op& op : ops) {
    if (op.kind == OpKind::Linear && op.outputs.size() > 1) bring_together(graph, op);
  }
  graph.ops = std::move(ops);
  return graph;
}

}  // namespace trireme
