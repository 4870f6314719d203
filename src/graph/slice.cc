#include "graph/slice.h"

#include <algorithm>

#include "graph/model_shard.h"
#include "graph/op_placement.h"

namespace trireme {
namespace {

bool can_be_cut(const Op& op) {
  return op.kind == OpKind::Linear || op.kind == OpKind::SoftmaxParts;
}

// Whether the tp ranks have parts of the op's matrices along this dim: 0 for rows, 1 for columns.
bool has_parts(const Graph& graph, const Op& op, int dim) {
  return std::any_of(op.params.begin(), op.params.end(), [&](ParamId id) {
    const Param& param = graph.params[size_t(id)];
    return param.is_matrix() && placement_of(param) == Placement::shard(dim);
  });
}

}  // namespace

Graph slice(Graph placed, const StageShape& layout) {
  const LayerSlices slices = LayerSlices::of(layout);
  if (!slices.are_fixed) return placed;
  for (Op& op : placed.ops) {
    if (!can_be_cut(op)) continue;
    if (has_parts(placed, op, 1)) op.slices.forward = slices.count;
    if (has_parts(placed, op, 0)) op.slices.backward = slices.count;
  }
  return placed;
}

}  // namespace trireme
