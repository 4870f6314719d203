#include "runtime/reserve_moves.h"

#include "collectives/move_collective.h"
#include "graph/model_shard.h"
#include "graph/moves.h"

namespace trireme {
namespace {

void reserve(Group& group, const MoveCollective& move, DType dtype) {
  const auto flat = [&](bool is_part) {
    return TensorRef{nullptr, dtype,
                     Shape{is_part ? move.counts[size_t(group.rank())] : move.count}};
  };
  const bool gathers = move.collective == Collective::AllGather;
  group.reserve({.collective = move.collective,
                 .in = flat(gathers),
                 .out = flat(move.collective == Collective::ReduceScatter),
                 .algorithm = move.algorithm(),
                 .counts = move.counts});
}

void reserve(Group& group, const TensorMove& move) {
  if (move.in_pieces) {
    for (const MoveCollective& sum :
         piece_traffic(move.change, move.global, kRowPieces, group.size(), group.rank()).sums) {
      reserve(group, sum, move.dtype);
    }
    return;
  }
  const auto whole = collective_of(move.change, move.global, group.size(), group.rank());
  // all_to_all needs nothing beside its buffers.
  if (whole && whole->collective != Collective::AllToAll) reserve(group, *whole, move.dtype);
}

}  // namespace

void reserve_moves(Group& tp, Group& batch, const ModelSpec& model, const StageSpec& stage,
                   const StageShape& shape) {
  const StageMoves moves = stage_moves(model, stage, shape);
  for (const auto* part :
       {&moves.forward, &moves.recompute, &moves.backward_input, &moves.backward_weight}) {
    for (const TensorMove& move : *part) {
      reserve(move.axis == MeshAxis::Dp ? batch : tp, move);
    }
  }
}

}  // namespace trireme
