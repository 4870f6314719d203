#include "graph/work.h"

#include "graph/axis_part.h"
#include "graph/model_graphs.h"

namespace trireme {
namespace {

int64_t total_of(std::span<const Axis> axes, const ModelSpec& model, const ModelShard& whole) {
  return part_of(axes, model, whole).total;
}

bool multiplies(const Op& op) {
  return op.kind == OpKind::Linear || op.kind == OpKind::GroupedLinear ||
         op.kind == OpKind::Route || op.kind == OpKind::SoftmaxParts;
}

}  // namespace

ModelFlops flops_per_token(const Graph& unit, const ModelSpec& model) {
  const ModelShard whole = shard_model(model, {});
  double elements = 0.0;
  ModelFlops flops;
  for (const Op& op : unit.ops) {
    for (const ParamId id : op.params) {
      const Param& param = unit.params[size_t(id)];
      if (!multiplies(op) || !param.is_matrix()) continue;
      // A token visits top_k of the experts.
      if (param.expert >= model.top_k) continue;
      elements +=
          double(total_of(param.rows, model, whole) * total_of(param.columns, model, whole));
    }
    if (op.kind != OpKind::Attention) continue;
    // Scores and values: 2 * 2 FLOPs for each number of a head and key met, times three for a
    // training step.
    const std::vector<Axis>& q = unit.values[size_t(op.inputs.front())].dims;
    const double q_width = double(total_of(std::span(q).subspan(1), model, whole));
    flops.attention += 12.0 * q_width * (double(model.seq_len) + 1.0) / 2.0;
  }
  flops.matmul = 6.0 * elements;
  return flops;
}

ModelFlops model_flops_per_token(const ModelSpec& model) {
  const ModelFlops layer = flops_per_token(layer_graph(model, 0), model);
  const ModelFlops head = flops_per_token(head_graph(model), model);
  return {double(model.layers) * layer.matmul + head.matmul,
          double(model.layers) * layer.attention};
}

}  // namespace trireme
