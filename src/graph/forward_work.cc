#include "graph/forward_work.h"

#include <span>

#include "graph/axis_part.h"

namespace trireme {
namespace {

int64_t total_of(std::span<const Axis> axes, const ModelSpec& model, const ModelShard& whole) {
  return part_of(axes, model, whole).total;
}

bool multiplies(const Op& op) {
  return op.kind == OpKind::Linear || op.kind == OpKind::GroupedLinear ||
         op.kind == OpKind::Route || op.kind == OpKind::SoftmaxParts;
}

// Elements of the matrices that a token multiplies.
double elements_of_weights(const Graph& unit, const Op& op, const ModelSpec& model,
                           const ModelShard& whole) {
  double elements = 0.0;
  for (const ParamId id : op.params) {
    const Param& param = unit.params[size_t(id)];
    // A token visits top_k of the experts.
    if (!multiplies(op) || !param.is_matrix() || param.expert >= model.top_k) continue;
    elements += double(total_of(param.rows, model, whole) * total_of(param.columns, model, whole));
  }
  return elements;
}

int64_t num_columns(const Value& value, const ModelSpec& model, const ModelShard& whole) {
  return total_of(std::span(value.dims).subspan(1), model, whole);
}

// Scores and values: 2 * 2 FLOPs for each number of a head and key met.
double attention_flops(const Graph& unit, const Op& op, const ModelSpec& model,
                       const ModelShard& whole) {
  if (op.kind != OpKind::Attention) return 0.0;
  const int64_t q_width = num_columns(unit.values[size_t(op.inputs.front())], model, whole);
  return 4.0 * double(q_width) * (double(model.seq_len) + 1.0) / 2.0;
}

}  // namespace

ForwardWork forward_work(const Graph& unit, const Op& op, const ModelSpec& model) {
  const ModelShard whole = shard_model(model, {});
  ForwardWork work{2.0 * elements_of_weights(unit, op, model, whole),
                   attention_flops(unit, op, model, whole), 0.0};
  std::vector<ValueId> touched = op.inputs;
  touched.insert(touched.end(), op.outputs.begin(), op.outputs.end());
  for (const ValueId id : {op.addend, op.late_residual}) {
    if (id >= 0) touched.push_back(id);
  }
  for (const ValueId id : touched) {
    const Value& value = unit.values[size_t(id)];
    if (!is_matrix(value)) continue;
    const int64_t rows = value.dims.front() == Axis::Visit ? model.top_k : 1;
    work.elements += double(rows * num_columns(value, model, whole));
  }
  return work;
}

}  // namespace trireme
