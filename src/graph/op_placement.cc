#include "graph/op_placement.h"

#include <algorithm>

#include "base/check.h"
#include "graph/layer_strategy.h"

namespace trireme {
namespace {

using Placements = std::vector<Placement>;

const Placement kRows = Placement::shard(0);
const Placement kColumns = Placement::shard(1);
const Placement kImageRows = Placement::shard(1);
const Placement kByExpert = Placement::shard(1);  // over ep: rows that are sorted by expert
const Placement kReplicate = Placement::replicate();
const Placement kPartial = Placement::partial();
const Placement kInvariant = Placement::invariant();

Strategy all_alike(const Op& op, Placement input, Placement output) {
  return {Placements(op.inputs.size(), input), Placements(op.outputs.size(), output)};
}
Strategy all_alike(const Op& op, Placement placement) {
  return all_alike(op, placement, placement);
}

bool has_cut_columns(const Graph& graph, ValueId value) {
  return has_cut_columns(graph.values[size_t(value)]);
}

// A product contracts the columns of its input: cut columns leave addends, cut outputs are parts.
Strategy linear_over_tp(const Graph& graph, const Op& op, Placement residual) {
  if (has_cut_columns(graph, op.inputs.front())) return all_alike(op, kColumns, kPartial);
  if (has_cut_columns(graph, op.outputs.front())) return all_alike(op, kReplicate, kColumns);
  return all_alike(op, residual);
}

// Works on each column alone; what weights whole rows is the same on all ranks.
Strategy columnwise_over_tp(const Graph& graph, const Op& op, Placement residual) {
  if (!has_cut_columns(graph, op.outputs.front())) return all_alike(op, residual);
  Strategy strategy = all_alike(op, kColumns);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!has_cut_columns(graph, op.inputs[i])) strategy.inputs[i] = kReplicate;
  }
  return strategy;
}

// A window reads the rows of its image that lie around those that it makes. Where the ranks share
// out whole images, it has them.
Strategy windowed_over_tp(const Op& op, Placement stream) {
  if (!(stream == kImageRows) || op.window.rows().reads_own_row()) return all_alike(op, stream);
  return all_alike(op, Placement::halo(op.window.rows()), stream);
}

std::vector<Strategy> over_tp(const Graph& graph, const Op& op, Placement residual) {
  switch (op.kind) {
    case OpKind::Lookup:
      return {all_alike(op, kInvariant, kPartial)};
    case OpKind::Linear:
    case OpKind::GroupedLinear:
      return {linear_over_tp(graph, op, residual)};
    case OpKind::Rope:  // a token's position follows from its place among all tokens
      return {columnwise_over_tp(graph, op, kReplicate)};
    case OpKind::Norm:  // of heads, or of the residual stream and what each rank makes whole
    case OpKind::Concat:
    case OpKind::Attention:
    case OpKind::LatentAttention:
    case OpKind::Activation:
    case OpKind::Dropout:  // of the residual stream, or of hidden units of a net of images
      return {columnwise_over_tp(graph, op, residual)};
    case OpKind::Scale:
      return {all_alike(op, residual)};
    case OpKind::Add:
      return {all_alike(op, residual), all_alike(op, kPartial)};
    case OpKind::ChooseKeys:
    case OpKind::Route:
    case OpKind::Count:
    case OpKind::Choose:
    case OpKind::Dispatch:
      return {all_alike(op, kReplicate)};
    case OpKind::Combine:
      return {all_alike(op, kPartial)};
    case OpKind::SoftmaxParts:
      return {all_alike(op, kReplicate, kRows)};
    case OpKind::CrossEntropy:
      return {all_alike(op, kInvariant)};
    case OpKind::Pixels:  // takes the rank's images, or its rows of each, out of the micro-batch
      return {all_alike(op, kInvariant, residual)};
    case OpKind::Convolution:  // every rank has all filters
    case OpKind::Pool:
      return {windowed_over_tp(op, residual)};
    case OpKind::BatchNorm:
    case OpKind::Flatten:
      return {all_alike(op, residual)};
    case OpKind::Redistribute:
      break;
  }
  TRIREME_CHECK(false, "a redistribution says its placements itself");
}

// Queries of the rank's tokens meet the keys of all. `num_inputs`: those behind the queries that
// are of all tokens.
Strategy with_keys_of_all(const Op& op, size_t num_inputs) {
  Strategy strategy = all_alike(op, kRows);
  for (size_t i = 1; i <= num_inputs; ++i) strategy.inputs[i] = kReplicate;
  return strategy;
}

// Every rank of cp has tokens of its own.
std::vector<Strategy> over_cp(const Op& op, ContextExchange exchange) {
  switch (op.kind) {
    case OpKind::Attention:
      if (exchange == ContextExchange::AllToAll) return {all_alike(op, kColumns)};
      return {with_keys_of_all(op, 2)};
    case OpKind::LatentAttention:  // a ring (latent_ring.h)
      return {with_keys_of_all(op, 2)};
    case OpKind::ChooseKeys:
      return {with_keys_of_all(op, 1)};
    case OpKind::Count:
      return {all_alike(op, kRows, kPartial)};
    case OpKind::Choose:
      return {{{kRows, kInvariant}, {kRows}}};
    default:
      return {all_alike(op, kRows)};
  }
}

// Every rank of ep has tokens of its own, and experts of its own.
std::vector<Strategy> over_ep(const Graph& graph, const Op& op) {
  const bool is_of_experts = op.kind == OpKind::GroupedLinear ||
                             (op.kind == OpKind::Activation &&
                              graph.values[size_t(op.inputs.front())].dims.front() == Axis::Visit);
  return {all_alike(op, is_of_experts ? kByExpert : kRows)};
}

}  // namespace

std::vector<Strategy> strategies_of(const Graph& graph, const Op& op, MeshAxis axis,
                                    const StageShape& layout) {
  switch (axis) {
    case MeshAxis::Tp:
      return over_tp(graph, op, stream_placement(graph, layout));
    case MeshAxis::Cp:
      return over_cp(op, layout.context_exchange);
    case MeshAxis::Dp:
      return {all_alike(op, kRows)};  // whole sequences; visits are counted by every rank alone
    case MeshAxis::Ep:
      return over_ep(graph, op);
    default:
      TRIREME_CHECK(false, "no op lies over this axis");
  }
}

Strategy whole_strategy(const Op& op) { return all_alike(op, kInvariant); }

Strategy choose_strategy(std::vector<Strategy> strategies, const std::vector<Placement>& inputs) {
  const auto fits = std::find_if(strategies.begin(), strategies.end(),
                                 [&](const Strategy& s) { return s.inputs == inputs; });
  return std::move(fits == strategies.end() ? strategies.front() : *fits);
}

ContextStrategy context_strategy(const StageShape& layout) {
  if (layout.cp == 1) return ContextStrategy::WholeSequences;
  return layout.context_exchange == ContextExchange::Ring ? ContextStrategy::Ring
                                                          : ContextStrategy::AllToAll;
}

bool counts_earlier_visits(const ModelSpec& model, const StageShape& layout) {
  const bool has_whole = context_strategy(layout) == ContextStrategy::WholeSequences;
  return model.capacity_factor > 0.0 && !has_whole;
}

ExpertStrategy expert_strategy(const StageShape& layout) {
  return layout.ep == 1 ? ExpertStrategy::AllExperts : ExpertStrategy::AllToAll;
}

Placement residual_placement(const StageShape& layout) {
  return layout.sequence_parallel ? Placement::shard(0) : Placement::invariant();
}

Placement stream_placement(const Graph& unit, const StageShape& layout) {
  return cuts_image_rows(unit, layout.layers) ? kImageRows : residual_placement(layout);
}

bool is_cut_by_tp(Axis axis) {
  switch (axis) {
    case Axis::Head:
    case Axis::KvHead:
    case Axis::Hidden:
    case Axis::DenseHidden:
    case Axis::SharedHidden:
    case Axis::Vocabulary:
      return true;
    default:
      return false;
  }
}

bool has_cut_columns(const Value& value) {
  const std::span<const Dim> columns = value.column_dims();
  return std::any_of(columns.begin(), columns.end(), is_cut);
}

Placement placement_of(const Param& param) {
  if (std::any_of(param.rows.begin(), param.rows.end(), is_cut)) return kRows;
  if (std::any_of(param.columns.begin(), param.columns.end(), is_cut)) return kColumns;
  return kInvariant;
}

bool grad_is_addend(const Op& op, const Param& param, const Strategy& over_tp) {
  if (param.balance_rate > 0.0) return false;      // counts, which are the same on all
  if (op.kind == OpKind::BatchNorm) return false;  // likewise sums over all images
  // Between the matrices of an adapter lies an addend if a rank has some columns of the input.
  if (param.is_adapter && over_tp.outputs.front() == kPartial) return true;
  const Placement grad = dual(over_tp.outputs.front());
  return grad == kPartial || grad.kind == Placement::Kind::Shard;
}

bool gathers_sums(const Graph& graph, const Op& op, MeshAxis axis) {
  if (op.kind != OpKind::BatchNorm) return false;
  if (axis == MeshAxis::Dp) return op.batch == NormBatch::Step;
  return graph.values[size_t(op.inputs.front())].placement.tp.kind == Placement::Kind::Shard;
}

}  // namespace trireme
