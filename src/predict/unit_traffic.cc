#include "predict/unit_traffic.h"

#include "collectives/move_collective.h"
#include "graph/latent_ring.h"
#include "graph/op_placement.h"
#include "predict/stage_blocks.h"

namespace trireme {
namespace {

const StageSpec& chunk_stage(const RankPlan& rank, const Action& action) {
  return rank.chunks[size_t(action.chunk)].stage;
}

bool runs_b(const Action& action) {
  return action.kind == ActionKind::B || action.kind == ActionKind::BW;
}

int64_t sent_over(MeshAxis axis, int ranks, const MoveCollective& move, DType dtype,
                  const RankGroups& groups, CollectiveBytes& collective_bytes) {
  return collective_bytes.sent(move.request(ranks, groups.rank().coords.along(axis)),
                               groups.along(axis, ranks), size_of(dtype),
                               move.algorithm() == Algorithm::Canonical);
}

// In every layer with experts the cp ranks sum how many tokens of each sequence visit each expert,
// and, if tokens compete for expert capacity, of each chunk of a sequence too.
int64_t expert_count_bytes(const RankGroups& groups, const Action& action, const ModelSpec& model) {
  if (action.kind != ActionKind::F) return 0;
  const RankPlan& rank = groups.rank();
  const int64_t layers = num_expert_blocks(model, chunk_stage(rank, action));
  const auto sum_bytes = [&](int64_t count) {
    return layers * groups.sent({.group = groups.along(MeshAxis::Cp, groups.mesh().cp),
                                 .rank = rank.coords.cp,
                                 .count = count,
                                 .dtype = DType::I32});
  };
  const int64_t counts = rank.shape.micro_sequences * model.experts;
  const int64_t bytes = sum_bytes(counts);
  if (!counts_earlier_visits(model, rank.shape)) return bytes;
  return bytes + sum_bytes(counts * shard_model(model, rank.shape).chunks.num_chunks());
}

}  // namespace

AxisCounts UnitTraffic::sent(const RankPlan& rank, const Action& action) {
  const RankGroups groups(plan_.mesh, rank, collective_bytes_);
  AxisCounts bytes = {};
  add_moves(groups, action, bytes);
  bytes[kCp] += expert_count_bytes(groups, action, plan_.model) + context_bytes(groups, action);
  bytes[kEp] += visit_bytes(groups, action);
  return bytes;
}

void UnitTraffic::add_moves(const RankGroups& groups, const Action& action, AxisCounts& bytes) {
  const StageShape& shape = groups.rank().shape;
  const StageSpec& stage = chunk_stage(groups.rank(), action);
  const auto [found, is_new] =
      moves_.try_emplace({content_of(plan_.model, stage), shape.tp, shape.tp_rank});
  StageMoves& moves = found->second;
  if (is_new) moves = collective_bytes_.moves(plan_.model, stage, shape);
  if (action.kind == ActionKind::F) return add_list(groups, moves.forward, bytes);
  add_list(groups, moves.recompute, bytes);
  if (action.kind != ActionKind::W) add_list(groups, moves.backward_input, bytes);
  if (action.kind != ActionKind::B) add_list(groups, moves.backward_weight, bytes);
}

void UnitTraffic::add_list(const RankGroups& groups, const std::vector<TensorMove>& moves,
                           AxisCounts& bytes) const {
  const RankPlan& rank = groups.rank();
  for (const TensorMove& move : moves) {
    if (move.in_pieces) {
      add_pieces(groups, move, bytes);
      continue;
    }
    const int ranks = move.num_ranks(rank.shape);
    const auto what = collective_of(move.change, move.global, ranks, rank.coords.along(move.axis));
    if (!what) continue;
    bytes[move.axis == MeshAxis::Dp ? kDp : kTp] +=
        sent_over(move.axis, ranks, *what, move.dtype, groups, collective_bytes_);
  }
}

// Adds the transfers of parallel.tp_overlap, which run beside a product.
void UnitTraffic::add_pieces(const RankGroups& groups, const TensorMove& move,
                             AxisCounts& bytes) const {
  const RankPlan& rank = groups.rank();
  const PieceTraffic traffic =
      piece_traffic(move.change, move.global, kRowPieces, rank.shape.tp, rank.coords.tp);
  bytes[kTp] += traffic.sent_elements * size_of(move.dtype);
  for (const MoveCollective& sum : traffic.sums) {
    bytes[kTp] +=
        sent_over(MeshAxis::Tp, rank.shape.tp, sum, move.dtype, groups, collective_bytes_);
  }
}

int64_t UnitTraffic::context_bytes(const RankGroups& groups, const Action& action) {
  const StageSpec& stage = chunk_stage(groups.rank(), action);
  const auto [forward, backward] = context_bytes_of_layer(groups);
  const int64_t blocks = num_blocks(plan_.model, stage);
  if (action.kind == ActionKind::F) return blocks * forward;
  const int64_t again = num_again(OpKind::Attention, groups.rank(), stage) +
                        num_again(OpKind::LatentAttention, groups.rank(), stage);
  return again * forward + (runs_b(action) ? blocks * backward : 0);
}

UnitTraffic::ContextBytes UnitTraffic::context_bytes_of_layer(const RankGroups& groups) {
  const RankPlan& rank = groups.rank();
  const ModelShard model = shard_model(plan_.model, rank.shape);
  switch (context_strategy(rank.shape)) {
    case ContextStrategy::WholeSequences:
      return {};
    case ContextStrategy::Ring:
      return ring_bytes(groups, model);
    case ContextStrategy::AllToAll:
      break;
  }
  // In F, q, k and v go to the ranks of their heads and the output comes back. In B the output and
  // its gradient go too, and the three gradients come back.
  const int64_t tokens = rank.shape.micro_sequences * model.local_len();
  const auto sent = [&](int64_t width) {
    return groups.sent({.collective = Collective::AllToAll,
                        .group = groups.along(MeshAxis::Cp, plan_.mesh.cp),
                        .rank = rank.coords.cp,
                        .count = tokens * width,
                        .dtype = rank.shape.compute});
  };
  const int64_t qkv = model.qkv_width(), out = model.o_width();
  return {sent(qkv) + sent(out), sent(qkv + 2 * out) + sent(qkv)};
}

// In F the keys and values of this rank's tokens, or their latents, and the keys of an indexer
// travel once round the ring. In B they travel again, with their fp32 gradients, which then return
// to this rank.
UnitTraffic::ContextBytes UnitTraffic::ring_bytes(const RankGroups& groups,
                                                  const ModelShard& model) {
  const StageShape& shape = groups.rank().shape;
  const int64_t cp = plan_.mesh.cp;
  const int64_t tokens = shape.micro_sequences * model.local_len();
  const auto [columns, is_new] = ring_columns_.try_emplace(shape.tp);
  if (is_new) columns->second = ring_columns(layer_keep(plan_.model, shape, 0).fused, model);
  const int64_t elements = tokens * (columns->second + model.index_head_dim);
  const int64_t forward = elements * size_of(shape.compute) * (cp - 1);
  return {forward, forward + elements * size_of(DType::F32) * cp};
}

// Counts the tokens sent to experts on other ep ranks and back, if the router is balanced: their
// number, a float for each, and their rows. Only the number is known before the step.
int64_t UnitTraffic::visit_bytes(const RankGroups& groups, const Action& action) {
  const RankPlan& rank = groups.rank();
  const StageSpec& stage = chunk_stage(rank, action);
  const int64_t layers = num_expert_blocks(plan_.model, stage), ep = plan_.mesh.ep;
  const int64_t tokens = rank.shape.micro_sequences * plan_.model.seq_len;
  const auto visits_of = [&](int64_t num_ops) {
    return num_ops * (plan_.model.expert_rows(tokens) / plan_.mesh.cp) * (ep - 1) / ep;
  };
  const int64_t row_bytes = plan_.model.d_model * size_of(rank.shape.compute);
  const int64_t there_and_back = visits_of(layers) * (2 * row_bytes + size_of(DType::F32));
  if (action.kind == ActionKind::F) {
    return there_and_back + layers * groups.sent({.collective = Collective::AllToAll,
                                                  .group = groups.of_experts(),
                                                  .rank = rank.coords.ep,
                                                  .count = plan_.model.experts,
                                                  .dtype = DType::I32});
  }
  const int64_t again =
      num_again(OpKind::Dispatch, rank, stage) + num_again(OpKind::Combine, rank, stage);
  return visits_of(again) * row_bytes + (runs_b(action) ? there_and_back : 0);
}

// Returns the number of ops of a kind that the layers of a stage run again. It is the same for all
// ranks of the stage.
int64_t UnitTraffic::num_again(OpKind kind, const RankPlan& rank, const StageSpec& stage) {
  if (!rank.shape.recomputes()) return 0;
  int64_t count = 0;
  for (const LayerRun& run : layer_runs(plan_.model, stage)) {
    const auto [layer, is_new] = layers_.try_emplace(run.kind);
    if (is_new) layer->second = layer_keep(plan_.model, rank.shape, run.first);
    count += run.count * layer->second.num_again(kind);
  }
  return count;
}

}  // namespace trireme
