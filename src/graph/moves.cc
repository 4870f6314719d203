#include "graph/moves.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/all_passes.h"
#include "graph/axis_part.h"
#include "graph/backward_reads.h"
#include "graph/fuse.h"
#include "graph/image_tensors.h"
#include "graph/layer_keep.h"
#include "graph/model_graphs.h"
#include "graph/op_placement.h"
#include "graph/param_table.h"

namespace trireme {
namespace {

TensorMove backward_move(const TensorMove& forward) {
  TensorMove move = forward;
  move.tensor = "d" + forward.tensor;
  move.change = backward_of(forward.change);
  return move;
}

class MoveList {
 public:
  MoveList(const ModelSpec& model, const StageShape& shape)
      : model_(model),
        shape_(shape),
        whole_(shard_model(model, {})),
        shard_(shard_model(model, shape)),
        num_tokens_(shape.micro_sequences * model.seq_len / shape.cp) {}

  void add(const Graph& unit, bool is_new) {
    const bool is_layer = unit.unit.starts_with("layers.");
    if (is_layer && is_new) again_ = runs_again(unit);
    for (size_t i = 0; i < unit.ops.size(); ++i) {
      const Op& op = unit.ops[i];
      for (const MeshAxis axis : {MeshAxis::Tp, MeshAxis::Dp}) {
        if (gathers_sums(unit, op, axis)) add_sums(unit, op, axis, is_layer && again_[i]);
      }
      if (op.kind != OpKind::Redistribute || op.axis != MeshAxis::Tp) continue;
      if (unit.values[size_t(op.inputs.front())].dims.front() == Axis::SoftmaxPart) {
        add_softmax_parts(unit, op);
        continue;
      }
      const Value& moved = unit.values[size_t(op.inputs.front())];
      const Shape global = has_images(moved) ? whole_images(moved, num_tokens_)
                                             : Shape{num_tokens_, width_of(moved)};
      const TensorMove move = move_of(unit, op, global, shape_.compute);
      moves_.forward.push_back(move);
      // The backward pass of a loss runs inside F. From the embedding, only the gradient of its
      // table goes back.
      const bool is_inside = is_layer || unit.unit == "head";
      std::vector<TensorMove>& backward = is_read_by_loss(unit, op) ? moves_.forward
                                          : is_inside               ? moves_.backward_input
                                                                    : moves_.backward_weight;
      const bool goes_back =
          (is_inside || has_weight_grad(unit)) && !is_of_samples(unit, op.inputs.front());
      if (goes_back) backward.push_back(backward_move(move));
      // What a product has read is gathered again where its weights' gradients are made.
      if (gathers(op) && is_read_by_weight_grad(unit, op.outputs.front())) {
        moves_.backward_weight.push_back(move);
        moves_.backward_weight.back().in_pieces = false;
      }
      if (is_layer && again_[i]) moves_.recompute.push_back(move);
    }
  }
  static bool is_read_by_loss(const Graph& placed, const Op& redistribution) {
    return std::any_of(placed.ops.begin(), placed.ops.end(), [&](const Op& op) {
      return op.kind == OpKind::SoftmaxParts && reads(op, redistribution.outputs.front());
    });
  }
  static bool is_read_by_weight_grad(const Graph& placed, ValueId value) {
    return std::any_of(placed.ops.begin(), placed.ops.end(), [&](const Op& op) {
      return reads(op, value) && weight_grad_reads_input(placed, op);
    });
  }
  std::vector<bool> runs_again(const Graph& placed) const {
    if (!shape_.recomputes()) return std::vector<bool>(placed.ops.size(), false);
    const Graph fused = fuse(placed);
    return runs_again_before_fuse(placed, fused,
                                  keep(fused, policy_of_layer(model_, shape_, fused)));
  }
  StageMoves take() { return std::move(moves_); }

 private:
  int64_t width_of(const Value& value) const { return part_of(value.column_dims(), whole_).total; }
  TensorMove move_of(const Graph& unit, const Op& op, const Shape& global, DType dtype) const {
    TensorMove move{.tensor = unit.unit + "." + unit.values[size_t(op.inputs.front())].name,
                    .change = op.change,
                    .global = global,
                    .dtype = dtype,
                    .in_pieces = op.in_pieces};
    for (const ParamId param : op.params) {
      move.weights.push_back(full_name(unit, unit.params[size_t(param)]));
    }
    return move;
  }

  // Adds what a batch norm gathers: the moments of every block, and in its backward pass the sums
  // of gradients. The whole backward pass of the first unit is W.
  void add_sums(const Graph& unit, const Op& op, MeshAxis axis, bool is_again) {
    const int64_t channels = width_of(unit.values[size_t(op.inputs.front())]);
    const BatchNormBlocks blocks =
        batch_norm_blocks(unit, op, TokenCounts(shard_, shape_), shape_.batch_ranks);
    const int64_t num_blocks = axis == MeshAxis::Dp ? blocks.all : blocks.of_tp;
    const TensorMove move{.tensor = unit.unit + "." + op.name + ".moments",
                          .axis = axis,
                          .change = gather_sums(),
                          .global = Shape{num_blocks, 2 * channels},
                          .dtype = DType::F32};
    moves_.forward.push_back(move);
    const bool is_first = !is_matrix(unit.values[size_t(unit.input)]);
    if (!is_first || has_weight_grad(unit)) {
      (is_first ? moves_.backward_weight : moves_.backward_input).push_back(move);
    }
    if (is_again) moves_.recompute.push_back(move);
  }

  // Tile by tile; the gradient of the parts is each rank's own.
  void add_softmax_parts(const Graph& unit, const Op& op) {
    const int64_t parts = 3 * LayerSlices::of(shape_).all;
    for (int64_t begin = 0; begin < num_tokens_; begin += kLossTileTokens) {
      const int64_t count = std::min(kLossTileTokens, num_tokens_ - begin);
      moves_.forward.push_back(move_of(unit, op, Shape{parts, count}, DType::F32));
    }
  }

  const ModelSpec& model_;
  const StageShape& shape_;
  ModelShard whole_, shard_;
  int64_t num_tokens_;       // of this rank of cp
  std::vector<bool> again_;  // [op of a layer]
  StageMoves moves_;
};

}  // namespace

StageMoves stage_moves(const ModelSpec& model, const StageSpec& stage, const StageShape& shape) {
  MoveList moves(model, shape);
  const auto placed = [&](Graph unit) { return placed_graph(std::move(unit), shape); };
  for_each_unit(model, stage, placed,
                [&](const Graph& unit, bool is_new) { moves.add(unit, is_new); });
  return moves.take();
}

}  // namespace trireme
