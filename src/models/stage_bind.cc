// Where the ops of a stage find their tensors, and in which order they are called; decided once.
#include <algorithm>

#include "graph/backward_reads.h"
#include "graph/op_placement.h"
#include "models/stage.h"
#include "nn/adapter.h"
#include "nn/rope_table.h"

namespace trireme {
namespace {

// The redistribution whose result W of `op` reads, or -1. What it gathers is not stored.
int gathering_of(const Graph& graph, const Op& op) {
  if (!weight_grad_reads_input(graph, op)) return -1;
  for (const ValueId input : op.inputs) {
    const Op* made_by = producer_of(graph, input);
    if (made_by != nullptr && gathers(*made_by)) {
      return int(made_by - graph.ops.data());
    }
  }
  return -1;
}

// Returns for each op whether the output of the unit depends on it.
std::vector<bool> needed_by_output(const Graph& graph) {
  std::vector<bool> op_is_needed(graph.ops.size()), value_is_needed(graph.values.size());
  value_is_needed[size_t(graph.output)] = true;
  for (size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    const auto is_needed = [&](ValueId id) { return bool(value_is_needed[size_t(id)]); };
    op_is_needed[i] = std::any_of(op.outputs.begin(), op.outputs.end(), is_needed);
    if (!op_is_needed[i]) continue;
    for (const ValueId id : op.inputs) value_is_needed[size_t(id)] = true;
    for (const ValueId id : {op.addend, op.early_residual, op.late_residual}) {
      if (id >= 0) value_is_needed[size_t(id)] = true;
    }
  }
  return op_is_needed;
}

}  // namespace

Stage::Stage(const ModelSpec& model, const StageSpec& stage, const StageShape& shape,
             const StageTables& tables, const StageMemory& memory, uint64_t seed)
    : model_(shard_model(model, shape)), shape_(shape), tables_(tables), memory_(memory) {
  const StageUnits units = stage_units(model, stage, shape);
  const Frame scratch(tables_.scratch, memory.scratch);
  fill_constants(scratch);
  bind_units(units, memory, seed);
  const StageUnit& first = units.units[stage.has_embedding ? 1 : 0];
  input_TC_ = residual_at(first.input);
  input_grad_TC_ = residual_at(first.input_grad);
  // A head sends nothing on, so what is before it is the last that a stage might send.
  const bool has_more = units.units.size() > 1;
  const StageUnit& last = units.units[units.units.size() - (stage.has_head && has_more ? 2 : 1)];
  output_TC_ = residual_at(last.output);
  output_grad_TC_ = residual_at(last.output_grad);
  document_first_T_ = saved_at(kDocumentFirst);
  document_position_T_ = saved_at(kDocumentPosition);
  document_first_N_ = saved_at(kDocumentFirstOfWhole);
}

void Stage::fill_constants(const Frame& scratch) const {
  if (const TensorRef cos_SD = scratch.find("rope.cos_SD")) {
    fill_rope_table(model_, cos_SD, scratch.at("rope.sin_SD"));
  }
  if (const TensorRef scale_r = scratch.find(kAdapterScale)) fill_adapter_scale(model_, scale_r);
}

void Stage::bind_units(const StageUnits& units, const StageMemory& memory, uint64_t seed) {
  const bool has_head = units.units.back().name == "head";
  const bool has_embedding = units.units.front().name == "embedding";
  StageBinding binding{model_, shape_, tables_, static_cast<char*>(memory.scratch), seed};
  binding.has_head = has_head;
  const auto params = [&](size_t unit) { return Frame(tables_.params, memory.unit_params[unit]); };
  for (size_t u = 0; u < units.units.size(); ++u) {
    const StageUnit& unit = units.units[u];
    const UnitKind& kind = units.kind_of(unit);
    const size_t first_op = units_.empty() ? 0 : num_ops();
    Unit& bound = units_.emplace_back();
    bound.first_op = first_op;
    const auto binding_of = [&](size_t op) {
      return OpBinding(binding, kind, unit, op, params(u), has_embedding ? params(0) : Frame());
    };
    for (size_t op = 0; op < kind.graph.ops.size(); ++op) {
      bound.ops.push_back(bind_op(binding_of(op)));
      bound.leaf_sums.emplace_back(tables_, kind, unit, op, shape_.leaves);
    }
    bound.copied_grad = binding_of(0).at(kind.memory.copied_input_grad);
    if (bound.copied_grad) bound.input_grad = residual_at(unit.input_grad);
    for (size_t op = 0; op < kind.graph.ops.size(); ++op) {
      const OpKind op_kind = kind.graph.ops[op].kind;
      if (op_kind == OpKind::Route) bound.routes.push_back(RouteAt::bind(binding_of(op)));
      if (op_kind != OpKind::Attention) continue;
      if (const TensorAt max_H = binding_of(op).of_module(kLargestLogits)) {
        bound.max_H.push_back(max_H);
      }
    }
    const bool rows_travel = expert_strategy(shape_) != ExpertStrategy::AllExperts;
    order_calls(kind, unit.name == "embedding", rows_travel, bound);
  }
}

// W of an op follows its B at once, while its gradients are in the cache. But what W reads gathered
// is gathered again once B has brought the gradients of all that read it back to the residual
// stream: both have the same scratch.
//
// Where rows travel to the experts, W of the experts waits until their gradients have travelled
// back. So a BW that runs beside an F has two long parts: B of the experts stands beside the
// dispatch of F, and W of the experts, with the attention, beside its combine.
void Stage::order_calls(const UnitKind& kind, bool is_first, bool rows_travel, Unit& unit) {
  const std::vector<Op>& ops = kind.graph.ops;
  const int num_ops = int(ops.size());
  const auto gather = [&](int op) { return gathering_of(kind.graph, ops[size_t(op)]); };
  const std::vector<bool> is_needed = needed_by_output(kind.graph);
  for (int op = 0; op < num_ops; ++op) {
    unit.forward.push_back({op, OpHalf::Forward});
    if (is_needed[size_t(op)]) unit.evaluation.push_back({op, OpHalf::Forward});
    if (kind.kept.runs_again[size_t(op)]) unit.again.push_back({op, OpHalf::Forward});
  }
  auto& [whole, input, weight] = unit.backward;
  if (is_first && !has_weight_grad(kind.graph)) return;  // nobody reads its gradients
  int gathered = -1;
  std::vector<Call> of_experts;  // W that waits
  for (int op = num_ops; op-- > 0;) {
    input.push_back({op, OpHalf::InputGrad});
    whole.push_back({op, OpHalf::InputGrad});
    const OpKind op_kind = ops[size_t(op)].kind;
    const bool has_weights = has_weight_grad(kind.graph, ops[size_t(op)]);
    const bool waits = rows_travel && op_kind == OpKind::GroupedLinear;
    if (has_weights && gather(op) < 0) {
      (waits ? of_experts : whole).push_back({op, OpHalf::WeightGrad});
    }
    if (op_kind == OpKind::Dispatch) {
      whole.insert(whole.end(), of_experts.begin(), of_experts.end());
      of_experts.clear();
    }
    if (has_weights) {
      if (gather(op) >= 0 && gather(op) != std::exchange(gathered, gather(op))) {
        weight.push_back({gathered, OpHalf::Forward});
      }
      weight.push_back({op, OpHalf::WeightGrad});
    }
    std::vector<Call> readers;
    for (int reader = num_ops; reader-- > op + 1;) {
      if (gather(reader) == op) readers.push_back({reader, OpHalf::WeightGrad});
    }
    if (readers.empty()) continue;
    whole.push_back({op, OpHalf::Forward});
    whole.insert(whole.end(), readers.begin(), readers.end());
  }
  if (!is_first) return;
  weight = whole;  // nothing lies before the unit: all of it is W
  input.clear();
}

TensorAt Stage::saved_at(const char* name) const {
  if (!tables_.saved.contains(name)) return {};
  const TensorSpec& tensor = tables_.saved.at(name);
  return {Base::Saved, tensor.dtype, tensor.offset, tensor.shape};
}

MatrixAt Stage::residual_at(const TensorPlace& place) const {
  const bool is_saved = place.space == Space::Saved, is_scratch = place.space == Space::Scratch;
  const TensorTable& table = is_saved     ? tables_.saved
                             : is_scratch ? tables_.scratch
                                          : tables_.weight_grad;
  const TensorSpec& tensor = table.at(place.name);
  const Base base = is_saved ? Base::Saved : is_scratch ? Base::Scratch : Base::WeightGrad;
  const int64_t cols = tensor.shape[1];
  return {base, tensor.dtype, tensor.offset, tensor.shape[0], cols, cols};
}

}  // namespace trireme
