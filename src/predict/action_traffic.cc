#include "predict/action_traffic.h"

#include <map>
#include <tuple>
#include <utility>

#include "collectives/move_collective.h"
#include "compile/link_cost.h"
#include "compile/tied_join.h"
#include "graph/latent_ring.h"
#include "graph/layer_keep.h"
#include "graph/moves.h"
#include "graph/op_placement.h"
#include "graph/param_layout.h"
#include "memory/newton_schulz_memory.h"
#include "memory/offload_pieces.h"
#include "schema/message_cut.h"

namespace trireme {
namespace {

// The side of the pipeline on which the peer of a join is. Which rank it is does not matter.
constexpr int16_t kNoPeer = -1, kOwnRank = 0, kPeerBehind = 1, kPeerBefore = 2;

int16_t side_of(int peer, int pp) {
  if (peer < 0) return kNoPeer;
  return peer == pp ? kOwnRank : peer > pp ? kPeerBehind : kPeerBefore;
}

bool computes(const Action& action) {
  return action.kind == ActionKind::F || action.kind == ActionKind::B ||
         action.kind == ActionKind::W || action.kind == ActionKind::BW;
}

bool sends_anything(const Action& action) {
  switch (action.kind) {
    case ActionKind::F:
    case ActionKind::B:
    case ActionKind::W:
    case ActionKind::BW:
      return action.first_unit == 0;  // counted once for all units
    case ActionKind::SendActivation:
    case ActionKind::RecvActivation:
    case ActionKind::SendGrad:
    case ActionKind::RecvGrad:
    case ActionKind::JoinDirections:
    case ActionKind::ReduceGrad:
    case ActionKind::JoinTiedTable:
    case ActionKind::Unshard:
    case ActionKind::FetchUnits:
    case ActionKind::OffloadUnits:
    case ActionKind::FetchPiece:
    case ActionKind::OffloadPiece:
    case ActionKind::Step:
      return true;
    default:
      return false;
  }
}

}  // namespace

int64_t file_bytes(const RankPlan& rank, const Action& action) {
  switch (action.kind) {
    case ActionKind::FetchUnits:
    case ActionKind::OffloadUnits:
      return block_bytes(unit_blocks(rank.chunks[size_t(action.chunk)], action.first_unit));
    case ActionKind::FetchPiece:
    case ActionKind::OffloadPiece:
      return block_bytes(
          rank.chunks[size_t(action.chunk)].pieces[size_t(action.microbatch)].blocks);
    default:
      return 0;
  }
}

std::vector<RepeatedAction> repeated_actions(const Mesh& mesh, std::span<const Action> actions,
                                             int pp) {
  std::map<std::tuple<ActionKind, int, int, int, int, int>, RepeatedAction> repeated;
  for (const Action& action : actions) {
    if (!sends_anything(action)) continue;
    Action sent{.kind = action.kind, .chunk = action.chunk, .microbatch = -1};
    if (is_of_piece(action.kind)) sent.microbatch = action.microbatch;
    sent.peer =
        is_transfer(action.kind) ? int16_t(mesh.tp_at(action.peer)) : side_of(action.peer, pp);
    if (!computes(action)) {
      sent.first_unit = action.first_unit;
      sent.num_units = action.num_units;
    }
    RepeatedAction& entry = repeated[{sent.kind, sent.chunk, sent.first_unit, sent.num_units,
                                      sent.peer, sent.microbatch}];
    entry.action = sent;
    ++entry.times;
  }
  std::vector<RepeatedAction> result;
  for (auto& [key, entry] : repeated) result.push_back(entry);
  return result;
}

class ActionTraffic::Work {
 public:
  Work(const RunPlan& plan, CollectiveBytes& collective_bytes)
      : plan_(plan), collective_bytes_(collective_bytes) {}

  AxisCounts sent(const RankPlan& rank, const Action& action) {
    rank_ = &rank;
    bytes_ = {};
    work_out(action);
    return bytes_;
  }
  int64_t sent_in_exchange(int position, const RankPlan& any_rank) {
    const GroupPlace world{0, {plan_.num_ranks(), 1}, {}};
    const auto sent = [&](int64_t count, DType dtype) {
      return collective(Collective::AllReduce, world, position, count, {}, dtype, false);
    };
    const int64_t words = sent(exchange_words(any_rank), DType::I64);
    const int64_t num_logits = any_rank.logits.count();
    return num_logits == 0 ? words : words + sent(num_logits, DType::F32);
  }

 private:
  void work_out(const Action& action) {
    switch (action.kind) {
      case ActionKind::SendActivation:
      case ActionKind::RecvGrad:
        return count_message(action, kStageOutput);
      case ActionKind::RecvActivation:
      case ActionKind::SendGrad:
        return count_message(action, stage_input_name(rank_->chunks[size_t(action.chunk)].stage));
      case ActionKind::ReduceGrad:
        return for_each_bucket(action, [&](const PlacedBucket& placed) { count_reduce(placed); });
      case ActionKind::JoinTiedTable:
        if (action.peer != kOwnRank) count_tied(action);
        return;
      case ActionKind::JoinDirections:
        for_each_bucket(action, [&](const PlacedBucket& placed) {
          const TableRange& summed =
              rank_->joins_directions_first ? placed.bucket.grads() : placed.shard.grads;
          if (summed.count > 0) bytes_[kPp] += pair_bytes(action.peer, summed.count);
        });
        return;
      case ActionKind::Unshard:
        for_each_bucket(action, [&](const PlacedBucket& placed) {
          const ChunkTables& chunk = rank_->chunks[size_t(action.chunk)];
          if (chunk.is_gathered_in_step(placed.bucket)) count_gather(placed);
        });
        return;
      case ActionKind::FetchUnits:
      case ActionKind::OffloadUnits:
      case ActionKind::FetchPiece:
      case ActionKind::OffloadPiece:
        bytes_[kFile] += file_bytes(*rank_, action);
        return;
      case ActionKind::F:
      case ActionKind::B:
      case ActionKind::W:
      case ActionKind::BW:
        count_moves(action);
        count_expert_counts(action);
        count_visits(action);
        return count_contexts(action);
      case ActionKind::Step:
        return count_addends();
      default:
        return;
    }
  }

  // A message between stages: what this rank sends of it, or what it sends of its part to the tp
  // ranks that have received the others.
  void count_message(const Action& action, const std::string& name) {
    const TensorSpec& carried = rank_->chunks[size_t(action.chunk)].tables.saved.at(name);
    const int64_t rows = carried.shape[0];
    const int64_t row_bytes = rows == 0 ? 0 : carried.bytes() / rows;
    const MessageCut cut = message_cut(rank_->shape, action.peer);
    const bool sends =
        action.kind == ActionKind::SendActivation || action.kind == ActionKind::SendGrad;
    if (sends) {
      bytes_[kPp] += cut.own_part(cut.all_rows(rows)).count * row_bytes;
      return;
    }
    const int ranks = cut.num_gathering();
    const int64_t cols = row_bytes / size_of(carried.dtype);
    std::vector<int64_t> counts;
    for (int rank = 0; rank < ranks; ++rank) {
      counts.push_back(cut.gathered(rows, rank).count * cols);
    }
    bytes_[kTp] += collective(Collective::AllGather, along(MeshAxis::Tp, ranks, 1),
                              cut.index_in_gather(), rows * cols, counts, carried.dtype, false);
  }

  // Transfers between tp ranks, once for all units of a chunk.
  void count_moves(const Action& action) {
    const StageSpec& stage = rank_->chunks[size_t(action.chunk)].stage;
    const auto [found, is_new] =
        moves_.try_emplace({content_of(plan_.model, stage), rank_->shape.tp, rank_->shape.tp_rank});
    StageMoves& moves = found->second;
    if (is_new) moves = collective_bytes_.moves(plan_.model, stage, rank_->shape);
    if (action.kind == ActionKind::F) return count_moves(moves.forward);
    count_moves(moves.recompute);
    if (action.kind != ActionKind::W) count_moves(moves.backward_input);
    if (action.kind != ActionKind::B) count_moves(moves.backward_weight);
  }

  // Number of ops of a kind that the layers of a stage run again. It is the same for all ranks of
  // the stage.
  int64_t num_again(OpKind kind, const StageSpec& stage) {
    if (!rank_->shape.recomputes()) return 0;
    int64_t count = 0;
    for (const LayerRun& run : layer_runs(plan_.model, stage)) {
      const auto [layer, is_new] = layers_.try_emplace(run.kind);
      if (is_new) layer->second = layer_keep(plan_.model, rank_->shape, run.first);
      count += run.count * layer->second.num_again(kind);
    }
    return count;
  }

  int64_t num_attentions_again(const StageSpec& stage) {
    return num_again(OpKind::Attention, stage) + num_again(OpKind::LatentAttention, stage);
  }

  int64_t num_expert_layers(const StageSpec& stage) const {
    int64_t count = 0;
    for (const LayerRun& run : layer_runs(plan_.model, stage)) {
      if (plan_.model.has_experts(run.first)) count += run.count;
    }
    const int64_t num_modules = num_blocks(plan_.model, stage) - stage.num_layers;
    return count + (plan_.model.has_experts() ? num_modules : 0);
  }

  // Transfers between cp ranks.
  void count_contexts(const Action& action) {
    const StageSpec& stage = rank_->chunks[size_t(action.chunk)].stage;
    const auto [forward, backward] = context_bytes_of_layer();
    const bool is_first = action.kind == ActionKind::F;
    const int64_t blocks = num_blocks(plan_.model, stage);
    bytes_[kCp] += (is_first ? blocks : num_attentions_again(stage)) * forward;
    const bool differentiates = action.kind == ActionKind::B || action.kind == ActionKind::BW;
    if (differentiates) bytes_[kCp] += blocks * backward;
  }

  struct ContextBytes {
    int64_t forward = 0, backward = 0;
  };
  ContextBytes context_bytes_of_layer() {
    const ModelShard model = shard_model(plan_.model, rank_->shape);
    switch (context_strategy(rank_->shape)) {
      case ContextStrategy::WholeSequences:
        return {};
      case ContextStrategy::Ring:
        return ring_bytes(model);
      case ContextStrategy::AllToAll:
        return all_to_all_bytes(model);
    }
    return {};
  }

  // In F the keys and values of this rank's tokens, or their latents, and the keys of an indexer
  // travel once round the ring. In B they travel again, with their fp32 gradients, which then
  // return to this rank.
  ContextBytes ring_bytes(const ModelShard& model) {
    const int64_t cp = plan_.mesh.cp;
    const int64_t tokens = rank_->shape.micro_sequences * model.local_len();
    const auto [columns, is_new] = ring_columns_.try_emplace(rank_->shape.tp);
    if (is_new) {
      columns->second = ring_columns(layer_keep(plan_.model, rank_->shape, 0).fused, model);
    }
    const int64_t elements = tokens * (columns->second + model.index_head_dim);
    const int64_t forward = elements * size_of(rank_->shape.compute) * (cp - 1);
    return {forward, forward + elements * size_of(DType::F32) * cp};
  }

  // In F, q, k and v go to the ranks of their heads and the output comes back. In B the output and
  // its gradient go too, and the three gradients come back.
  ContextBytes all_to_all_bytes(const ModelShard& model) const {
    const int64_t tokens = rank_->shape.micro_sequences * model.local_len();
    const auto sent = [&](int64_t width) {
      return collective(Collective::AllToAll, along(MeshAxis::Cp, plan_.mesh.cp, 1),
                        rank_->coords.cp, tokens * width, {}, rank_->shape.compute, false);
    };
    const int64_t qkv = model.qkv_width(), out = model.o_width();
    return {sent(qkv) + sent(out), sent(qkv + 2 * out) + sent(qkv)};
  }

  // In every layer with experts the cp ranks sum how many tokens of each sequence visit each
  // expert, and, if tokens compete for expert capacity, of each chunk of a sequence too.
  void count_expert_counts(const Action& action) {
    if (action.kind != ActionKind::F) return;
    const int64_t layers = num_expert_layers(rank_->chunks[size_t(action.chunk)].stage);
    const int64_t counts = rank_->shape.micro_sequences * plan_.model.experts;
    const auto sum_bytes = [&](int64_t count) {
      return layers * collective(Collective::AllReduce, along(MeshAxis::Cp, plan_.mesh.cp, 1),
                                 rank_->coords.cp, count, {}, DType::I32, false);
    };
    bytes_[kCp] += sum_bytes(counts);
    if (!counts_earlier_visits(plan_.model, rank_->shape)) return;
    const ModelShard model = shard_model(plan_.model, rank_->shape);
    bytes_[kCp] += sum_bytes(counts * model.chunks.num_chunks());
  }

  // Tokens sent to experts on other ep ranks and back, if the router is balanced: their number, a
  // float for each, and their rows. Only the number is known before the step.
  void count_visits(const Action& action) {
    const StageShape& shape = rank_->shape;
    const StageSpec& stage = rank_->chunks[size_t(action.chunk)].stage;
    const int64_t layers = num_expert_layers(stage), ep = plan_.mesh.ep;
    const int64_t tokens = shape.micro_sequences * plan_.model.seq_len;
    const auto visits_of = [&](int64_t num_ops) {
      return num_ops * (plan_.model.expert_rows(tokens) / plan_.mesh.cp) * (ep - 1) / ep;
    };
    const int64_t row_bytes = plan_.model.d_model * size_of(shape.compute);
    const int64_t there_and_back = visits_of(layers) * (2 * row_bytes + size_of(DType::F32));
    if (action.kind == ActionKind::F) {
      bytes_[kEp] += layers * collective(Collective::AllToAll, ranks_of_experts(), rank_->coords.ep,
                                         plan_.model.experts, {}, DType::I32, false);
      bytes_[kEp] += there_and_back;
    } else {
      const int64_t again = num_again(OpKind::Dispatch, stage) + num_again(OpKind::Combine, stage);
      bytes_[kEp] += visits_of(again) * row_bytes;
    }
    const bool goes_back = action.kind == ActionKind::B || action.kind == ActionKind::BW;
    if (goes_back) bytes_[kEp] += there_and_back;
  }

  void count_moves(const std::vector<TensorMove>& moves) {
    for (const TensorMove& move : moves) {
      if (move.in_pieces) {
        count_pieces(move);
        continue;
      }
      const int ranks = move.num_ranks(rank_->shape);
      const auto what =
          collective_of(move.change, move.global, ranks, rank_->coords.along(move.axis));
      if (!what) continue;
      bytes_[move.axis == MeshAxis::Dp ? kDp : kTp] +=
          sent_over(move.axis, ranks, *what, move.dtype);
    }
  }

  void count_pieces(const TensorMove& move) {
    const PieceTraffic traffic =
        piece_traffic(move.change, move.global, kRowPieces, rank_->shape.tp, rank_->coords.tp);
    bytes_[kTp] += traffic.sent_elements * size_of(move.dtype);
    for (const MoveCollective& sum : traffic.sums) {
      bytes_[kTp] += sent_over(MeshAxis::Tp, rank_->shape.tp, sum, move.dtype);
    }
  }

  int64_t sent_over(MeshAxis axis, int ranks, const MoveCollective& move, DType dtype) const {
    return collective_bytes_.sent(move.request(ranks, rank_->coords.along(axis)),
                                  along(axis, ranks, 1), size_of(dtype),
                                  move.algorithm() == Algorithm::Canonical);
  }

  int64_t context_bytes(int addends, int64_t count) const {
    const int step = plan_.mesh.cp / addends;
    return collective(Collective::AllReduce, along(MeshAxis::Cp, addends, step),
                      rank_->coords.cp / step, count, {}, plan_.shape.grad, true);
  }

  // Counts the partial gradients that tp and cp ranks sum, and the parts that Muon gathers over tp.
  void count_addends() {
    for (const ChunkTables& chunk : rank_->chunks) {
      for (const OwnedParam& owned : chunk.owned) {
        if (!owned.has_grad()) continue;
        const ParamLayout& layout = chunk.layouts[owned.param];
        const int addends = layout.grad_addends;
        const int uses = owned.second_use_begin >= 0 ? 2 : 1;
        bytes_[kCp] += uses * context_bytes(layout.cp_addends, owned.count);
        bytes_[kTp] +=
            collective(Collective::AllReduce, along(MeshAxis::Tp, addends, 1),
                       rank_->coords.tp % addends, owned.count, {}, plan_.shape.grad, true);
        if (owned.takes_muon) bytes_[kTp] += gathered_for_muon(chunk.matrices[owned.param]);
      }
    }
  }

  int64_t gathered_for_muon(const WholeMatrix& matrix) const {
    if (!matrix.is_gathered()) return 0;
    const DType dtype = newton_schulz_memory(matrix, plan_.shape.compute).dtype;
    return collective(Collective::AllGather, along(MeshAxis::Tp, rank_->shape.tp, 1),
                      rank_->coords.tp, matrix.rows * matrix.cols, matrix.counts(), dtype, false);
  }

  template <typename Visit>
  void for_each_bucket(const Action& action, Visit&& visit) const {
    for (const PlacedBucket& placed : rank_->chunks[size_t(action.chunk)].buckets) {
      const int unit = placed.bucket.unit;
      const bool is_meant = action.num_units == 0 || (unit >= action.first_unit &&
                                                      unit < action.first_unit + action.num_units);
      if (is_meant) visit(placed);
    }
  }

  bool is_canonical() const { return plan_.mode == AccumulateMode::Layout; }
  const ZeroShape& zero_of(const Bucket& bucket) const {
    return bucket.is_of_experts ? rank_->expert_zero : rank_->zero;
  }
  int shards(const Bucket& bucket) const {
    return zero_of(bucket).level == 0 ? 1 : zero_of(bucket).degree;
  }

  // The size of each shard of a bucket and the bytes that its rank sends, [shard, first position of
  // its group in a node].
  struct ShardedBucket {
    std::vector<int64_t> grads, params;
    std::map<std::pair<int, int64_t>, int64_t> reduced, gathered;
  };

  ShardedBucket& sharded(const Bucket& bucket) {
    const int shards = this->shards(bucket);
    std::vector<int64_t> key = numbers_of(bucket);
    key.push_back(shards);  // places of a pipeline may have degrees of their own
    const auto [found, is_new] = buckets_.try_emplace(std::move(key));
    ShardedBucket& result = found->second;
    if (!is_new) return result;
    for (int i = 0; i < shards; ++i) {
      const Shard shard = shard_ranges(bucket, zero_of(bucket).num_holders(), i);
      result.grads.push_back(shard.grads.count);
      result.params.push_back(shard.params.count);
    }
    return result;
  }

  void count_reduce(const PlacedBucket& placed) {
    if (placed.bucket.grads().count == 0) return;
    // Distance between ranks that hold the same experts.
    const int stride = placed.bucket.is_of_experts ? plan_.mesh.ep_dp() : 1;
    const int shards = this->shards(placed.bucket);
    const int replicas = plan_.mesh.dp_at(rank_->coords.pp) / stride / shards;
    const int replica = rank_->coords.dp / stride / shards;
    if (shards > 1) {
      ShardedBucket& bucket = sharded(placed.bucket);
      const int index = zero_of(placed.bucket).index;
      const GroupPlace place = along(MeshAxis::Dp, shards, stride);
      const auto [bytes, is_new] =
          bucket.reduced.try_emplace({index, place.normalized(collective_bytes_.nodes()).first}, 0);
      if (is_new) {
        bytes->second =
            collective(Collective::ReduceScatter, place, index, placed.bucket.grads().count,
                       bucket.grads, plan_.shape.grad, is_canonical());
      }
      bytes_[kDp] += bytes->second;
    }
    bytes_[kDp] +=
        collective(Collective::AllReduce, along(MeshAxis::Dp, replicas, stride * shards), replica,
                   placed.shard.grads.count, {}, plan_.shape.grad, is_canonical());
  }

  void count_gather(const PlacedBucket& placed) {
    const int64_t total = placed.bucket.params().count;
    if (total == 0) return;
    ShardedBucket& bucket = sharded(placed.bucket);
    const int index = zero_of(placed.bucket).index;
    const int stride = placed.bucket.is_of_experts ? plan_.mesh.ep_dp() : 1;
    const GroupPlace place = along(MeshAxis::Dp, shards(placed.bucket), stride);
    const auto [bytes, is_new] =
        bucket.gathered.try_emplace({index, place.normalized(collective_bytes_.nodes()).first}, 0);
    if (is_new) {
      bytes->second = collective(Collective::AllGather, place, index, total, bucket.params,
                                 plan_.shape.compute, is_canonical());
    }
    bytes_[kDp] += bytes->second;
  }

  void count_tied(const Action& action) {
    if (!tied_) tied_ = tied_join(plan_);
    const std::optional<TiedShare> share = tied_->share_of(rank_->coords);
    const TiedEnd& end = tied_->ends[size_t(share->end)];
    // However the piece is cut into pairs, each of two ranks sends what they sum once.
    bytes_[kPp] += pair_bytes(action.peer, end.piece(share->piece).count);
    bytes_[kDp] +=
        collective(Collective::AllGather, along(MeshAxis::Dp, end.sharing, end.shards), share->copy,
                   share->part.count, share->counts, plan_.shape.grad, is_canonical());
  }

  // Gradients summed with another rank of the pipeline.
  int64_t pair_bytes(int side, int64_t count) const {
    const GroupPlace pair{0, {2, plan_.num_ranks() - 1}, {}};
    return collective(Collective::AllReduce, pair, side == kPeerBehind ? 0 : 1, count, {},
                      plan_.shape.grad, is_canonical());
  }

  // `count` ranks of this rank's line along an axis, `step` coordinates apart: those of its block
  // of count * step coordinates.
  GroupPlace along(MeshAxis axis, int count, int step) const {
    const MeshCoords& at = rank_->coords;
    const int coord = axis == MeshAxis::Tp ? at.tp : axis == MeshAxis::Cp ? at.cp : at.dp;
    const int64_t stride = span_of(plan_.mesh, axis, at.pp).stride;
    const int64_t index = coord / step % count;
    const int64_t own = position_of(plan_.mesh, at);
    return {own - index * step * stride, {count, step * stride}, {}};
  }
  GroupPlace ranks_of_experts() const {
    const Mesh& mesh = plan_.mesh;
    const int fold = rank_->coords.expert_dp * mesh.ep;
    MeshCoords first = rank_->coords;
    first.cp = fold % mesh.cp;
    first.dp = fold / mesh.cp;
    return {position_of(mesh, first),
            {mesh.ep_cp(), span_of(mesh, MeshAxis::Cp, first.pp).stride},
            {mesh.ep_dp(), span_of(mesh, MeshAxis::Dp, first.pp).stride}};
  }

  int64_t collective(Collective collective, const GroupPlace& place, int rank, int64_t count,
                     const std::vector<int64_t>& counts, DType dtype, bool canonical) const {
    const auto size = int(place.inner.count * place.outer.count);
    if (size == 1) return 0;
    return collective_bytes_.sent(
        {.collective = collective, .rank = rank, .size = size, .count = count, .counts = counts},
        place, size_of(dtype), canonical);
  }

  const RunPlan& plan_;
  CollectiveBytes& collective_bytes_;
  std::map<int, LayerKeep> layers_;                                         // by kind
  std::map<int, int64_t> ring_columns_;                                     // by tp
  std::map<std::tuple<std::vector<int64_t>, int, int>, StageMoves> moves_;  // content, tp, tp rank
  std::map<std::vector<int64_t>, ShardedBucket> buckets_;
  std::optional<TiedJoin> tied_;
  // Arguments of the call that is running.
  const RankPlan* rank_ = nullptr;
  AxisCounts bytes_ = {};
};

ActionTraffic::ActionTraffic(const RunPlan& plan, CollectiveBytes& collective_bytes)
    : work_(std::make_unique<Work>(plan, collective_bytes)) {}
ActionTraffic::~ActionTraffic() = default;

AxisCounts ActionTraffic::sent(const RankPlan& rank, const Action& action) {
  return work_->sent(rank, action);
}

int64_t ActionTraffic::sent_in_exchange(int position, const RankPlan& any_rank) {
  return work_->sent_in_exchange(position, any_rank);
}

}  // namespace trireme
