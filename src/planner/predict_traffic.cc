#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "planner/collective_bytes.h"
#include "planner/predict.h"
#include "sharding/redistribution_traffic.h"
#include "spec/model_layout.h"
#include "spec/offload_pieces.h"
#include "spec/stage_flow.h"

namespace trireme {
namespace {

enum Axis { kDp, kTp, kPp, kCp, kEp, kWorld, kFile, kNumAxes };

// Counts what the runtime does for each action (runtime/data_parallel.cc, runtime/pipeline.cc).
class Counter {
 public:
  Counter(const RunPlan& plan, const RankPlan& rank, int ranks_per_node, CollectiveBytes& known)
      : plan_(plan),
        rank_(rank),
        shares_memory_(plan.num_ranks() <= ranks_per_node),
        known_(known) {}

  AxisBytes run(std::span<const Action> actions) {
    for (const Action& action : actions) count(action);
    AxisBytes result;
    for (size_t axis = 0; axis < kNumAxes; ++axis) {
      result.emplace_back(kTrafficAxes[axis], bytes_[axis]);
    }
    return result;
  }

 private:
  using Bytes = std::array<int64_t, kNumAxes>;
  using Key = std::tuple<ActionKind, int, int, int, int>;

  // A program repeats few actions for many micro-batches: each kind is worked out once.
  void count(const Action& action) {
    if (action.kind == ActionKind::Step && action.microbatch >= 0) return;  // of a piece
    if (action.kind == ActionKind::Fetch || action.kind == ActionKind::Offload) {
      const ChunkTables& chunk = rank_.chunks[size_t(action.chunk)];
      bytes_[kFile] += action.num_units > 0
                           ? block_bytes(unit_blocks(chunk, action.first_unit))
                           : block_bytes(chunk.pieces[size_t(action.microbatch)].blocks);
      return;
    }
    const Key key{action.kind, action.chunk, action.first_unit, action.num_units, action.peer};
    const auto [found, is_new] = counted_.try_emplace(key);
    if (is_new) {
      const Bytes before = std::exchange(bytes_, Bytes{});
      work_out(action);
      found->second = std::exchange(bytes_, before);
    }
    for (int axis = 0; axis < kNumAxes; ++axis) bytes_[size_t(axis)] += found->second[size_t(axis)];
  }

  void work_out(const Action& action) {
    switch (action.kind) {
      case ActionKind::SendActivation:
      case ActionKind::SendGrad:
        bytes_[kPp] += rank_.chunks.front().tables.saved.at("y_TC").bytes();
        return;
      case ActionKind::ReduceGrad:
        if (action.peer < 0) {
          for_each_bucket(action, [&](const PlacedBucket& placed) { count_reduce(placed); });
        } else if (action.peer != rank_.coords.pp) {
          count_tied(action);
        }
        return;
      case ActionKind::SumGrad:
        if (action.peer < 0) return;
        for_each_bucket(action, [&](const PlacedBucket& placed) {
          bytes_[kPp] += pair_bytes(action.peer, placed.shard.grads.count);
        });
        return;
      case ActionKind::Unshard:
        for_each_bucket(action, [&](const PlacedBucket& placed) { count_gather(placed); });
        return;
      case ActionKind::F:
      case ActionKind::B:
      case ActionKind::W:
      case ActionKind::BW:
        if (action.first_unit != 0) return;
        count_moves(action);
        count_expert_counts(action);
        count_visits(action);
        return count_contexts(action);
      case ActionKind::Step:
        count_addends();
        bytes_[kWorld] += collective(Collective::AllReduce, plan_.num_ranks(), rank_.position,
                                     exchange_words(rank_), {}, DType::I64, false);
        return;
      default:
        return;
    }
  }

  // Between the tensor-parallel ranks, once for all units of a chunk.
  void count_moves(const Action& action) {
    const StageSpec& stage = rank_.chunks[size_t(action.chunk)].stage;
    const StageMoves moves =
        stage_moves(stage_flow(plan_.model, stage, rank_.shape), rank_.shape.recompute);
    if (action.kind == ActionKind::F) return count_moves(moves.forward);
    count_moves(moves.recompute);
    if (action.kind != ActionKind::W) count_moves(moves.backward_input);
    if (action.kind != ActionKind::B) count_moves(moves.backward_weight);
  }

  // Between the context-parallel ranks; full recomputation runs the forward pass again.
  void count_contexts(const Action& action) {
    if (plan_.mesh.cp == 1) return;
    const StageSpec& stage = rank_.chunks[size_t(action.chunk)].stage;
    const ModelShard model = shard_model(plan_.model, rank_.shape);
    const bool is_ring = rank_.shape.context_exchange == ContextExchange::Ring;
    const auto [forward, backward] = is_ring ? ring_bytes(model) : all_to_all_bytes(model);
    const bool attends = action.kind == ActionKind::F || rank_.shape.recompute == Recompute::Full;
    if (attends) bytes_[kCp] += stage.num_layers * forward;
    const bool differentiates = action.kind == ActionKind::B || action.kind == ActionKind::BW;
    if (differentiates) bytes_[kCp] += stage.num_layers * backward;
  }

  struct ContextBytes {
    int64_t forward, backward;  // of a layer
  };

  // Keys and values of this rank's tokens go once round the ring, in F and again in B, where their
  // fp32 gradients follow them and come home.
  ContextBytes ring_bytes(const ModelShard& model) const {
    const int64_t cp = plan_.mesh.cp;
    const int64_t tokens = rank_.shape.micro_sequences * model.local_len();
    const int64_t elements = tokens * 2 * model.kv_width();
    const int64_t forward = elements * size_of(rank_.shape.compute) * (cp - 1);
    return {forward, forward + elements * size_of(DType::F32) * cp};
  }

  // q, k and v to the ranks of their heads and the output back; backward the output and its
  // gradient go too, and the three gradients come back.
  ContextBytes all_to_all_bytes(const ModelShard& model) const {
    const int64_t tokens = rank_.shape.micro_sequences * model.local_len();
    const auto sent = [&](int64_t width) {
      return collective(Collective::AllToAll, plan_.mesh.cp, rank_.coords.cp, tokens * width, {},
                        rank_.shape.compute, false);
    };
    const int64_t qkv = model.qkv_width(), q = model.q_width();
    return {sent(qkv) + sent(q), sent(qkv + 2 * q) + sent(qkv)};
  }

  // How often every sequence, and every chunk of it where tokens compete for places, visits every
  // expert, told once by every layer.
  void count_expert_counts(const Action& action) {
    if (action.kind != ActionKind::F) return;
    const int64_t layers = rank_.chunks[size_t(action.chunk)].stage.num_layers;
    const int64_t counts = rank_.shape.micro_sequences * plan_.model.experts;
    const auto told = [&](int64_t count) {
      return layers * collective(Collective::AllReduce, plan_.mesh.cp, rank_.coords.cp, count, {},
                                 DType::I32, false);
    };
    bytes_[kCp] += told(counts);
    const ModelShard model = shard_model(plan_.model, rank_.shape);
    if (model.counts_earlier_visits()) bytes_[kCp] += told(counts * model.chunks.num_chunks());
  }

  // Visits of experts on other ranks, there and back, as an even router sends them: how many they
  // are, what is told of each, and its row. Only the first is known beforehand.
  void count_visits(const Action& action) {
    const int64_t ep = plan_.mesh.ep;
    if (ep == 1) return;
    const StageShape& shape = rank_.shape;
    const int64_t layers = rank_.chunks[size_t(action.chunk)].stage.num_layers;
    const int64_t tokens = shape.micro_sequences * plan_.model.seq_len;
    const int64_t visits =
        layers * (plan_.model.expert_rows(tokens) / plan_.mesh.cp) * (ep - 1) / ep;
    const int64_t rows = visits * plan_.model.d_model * size_of(shape.compute);
    const int64_t numbers = visits * size_of(DType::F32);
    if (action.kind == ActionKind::F) {
      bytes_[kEp] += layers * collective(Collective::AllToAll, plan_.mesh.ep, rank_.coords.ep,
                                         plan_.model.experts, {}, DType::I32, false);
      bytes_[kEp] += 2 * rows + numbers;
    } else if (shape.recompute == Recompute::Full) {
      bytes_[kEp] += rows;
    }
    const bool goes_back = action.kind == ActionKind::B || action.kind == ActionKind::BW;
    if (goes_back) bytes_[kEp] += 2 * rows + numbers;
  }

  void count_moves(const std::vector<TensorMove>& moves) {
    for (const TensorMove& move : moves) {
      if (move.in_pieces) {
        count_pieces(move);
        continue;
      }
      const auto what = collective_of(move.change, move.global, plan_.mesh.tp, rank_.coords.tp);
      if (!what) continue;
      bytes_[kTp] += sent_over_tp(*what, move.dtype);
    }
  }

  void count_pieces(const TensorMove& move) {
    const PieceTraffic traffic =
        piece_traffic(move.change, move.global, kRowPieces, plan_.mesh.tp, rank_.coords.tp);
    bytes_[kTp] += traffic.sent_elements * size_of(move.dtype);
    for (const MoveCollective& sum : traffic.sums) bytes_[kTp] += sent_over_tp(sum, move.dtype);
  }

  int64_t sent_over_tp(const MoveCollective& move, DType dtype) const {
    return known_.sent(move.request(plan_.mesh.tp, rank_.coords.tp), size_of(dtype),
                       move.algorithm() == Algorithm::Canonical, shares_memory_);
  }

  int64_t context_bytes(int addends, int64_t count) const {
    const int rank = rank_.coords.cp / (plan_.mesh.cp / addends);
    return collective(Collective::AllReduce, addends, rank, count, {}, DType::F32, true);
  }

  // Gradients that lie on tensor- and context-parallel ranks as addends.
  void count_addends() {
    for (const ChunkTables& chunk : rank_.chunks) {
      for (const OwnedParam& owned : chunk.owned) {
        const ParamLayout& layout = chunk.layouts[owned.param];
        const int addends = layout.grad_addends;
        const int uses = owned.second_use_begin >= 0 ? 2 : 1;
        bytes_[kCp] += uses * context_bytes(layout.cp_addends, owned.count);
        bytes_[kTp] += collective(Collective::AllReduce, addends, rank_.coords.tp % addends,
                                  owned.count, {}, DType::F32, true);
      }
    }
  }

  template <typename Visit>
  void for_each_bucket(const Action& action, Visit&& visit) const {
    for (const PlacedBucket& placed : rank_.chunks[size_t(action.chunk)].buckets) {
      const int unit = placed.bucket.unit;
      const bool is_meant = action.num_units == 0 || (unit >= action.first_unit &&
                                                      unit < action.first_unit + action.num_units);
      if (is_meant) visit(placed);
    }
  }

  bool is_canonical() const { return plan_.mode == AccumulateMode::Layout; }
  const ZeroShape& zero_of(const Bucket& bucket) const {
    return bucket.is_of_experts ? rank_.expert_zero : rank_.zero;
  }
  int shards(const Bucket& bucket) const {
    return zero_of(bucket).level == 0 ? 1 : zero_of(bucket).degree;
  }

  void count_reduce(const PlacedBucket& placed) {
    const int stride = placed.bucket.is_of_experts ? plan_.mesh.ep_dp() : 1;  // of the same experts
    const int shards = this->shards(placed.bucket);
    const int replicas = plan_.mesh.dp / stride / shards;
    const int replica = rank_.coords.dp / stride / shards;
    if (shards > 1) {
      const std::vector<int64_t> counts = shard_counts(placed.bucket, &Shard::grads);
      bytes_[kDp] += collective(Collective::ReduceScatter, shards, zero_of(placed.bucket).index,
                                placed.bucket.grads().count, counts, DType::F32, is_canonical());
    }
    bytes_[kDp] += collective(Collective::AllReduce, replicas, replica, placed.shard.grads.count,
                              {}, DType::F32, is_canonical());
  }

  void count_gather(const PlacedBucket& placed) {
    const int64_t total = placed.bucket.params().count;
    if (total == 0) return;
    const std::vector<int64_t> counts = shard_counts(placed.bucket, &Shard::params);
    bytes_[kDp] +=
        collective(Collective::AllGather, shards(placed.bucket), zero_of(placed.bucket).index,
                   total, counts, plan_.shape.compute, is_canonical());
  }

  void count_tied(const Action& action) {
    for (const OwnedParam& owned : rank_.chunks[size_t(action.chunk)].owned) {
      if (owned.name == "embedding.tokens") bytes_[kPp] += pair_bytes(action.peer, owned.count);
    }
  }

  // Summed with another rank of the pipeline.
  int64_t pair_bytes(int peer, int64_t count) const {
    const int index = rank_.coords.pp < peer ? 0 : 1;
    return collective(Collective::AllReduce, 2, index, count, {}, DType::F32, is_canonical());
  }

  std::vector<int64_t> shard_counts(const Bucket& bucket, TableRange Shard::*range) const {
    std::vector<int64_t> counts;
    const int shards = this->shards(bucket);
    for (int i = 0; i < shards; ++i) {
      counts.push_back((shard_ranges(bucket, zero_of(bucket).num_holders(), i).*range).count);
    }
    return counts;
  }

  int64_t collective(Collective collective, int size, int rank, int64_t count,
                     const std::vector<int64_t>& counts, DType dtype, bool canonical) const {
    if (size == 1) return 0;
    return known_.sent(
        {.collective = collective, .rank = rank, .size = size, .count = count, .counts = counts},
        size_of(dtype), canonical, shares_memory_);
  }

  const RunPlan& plan_;
  const RankPlan& rank_;
  bool shares_memory_;
  CollectiveBytes& known_;
  std::map<Key, Bytes> counted_;
  Bytes bytes_ = {};
};

}  // namespace

AxisBytes predict_traffic(const RunPlan& plan, const RankPlan& rank, int ranks_per_node) {
  CollectiveBytes known;
  return predict_traffic(plan, rank, ranks_per_node, rank.program, known);
}

AxisBytes predict_traffic(const RunPlan& plan, const RankPlan& rank, int ranks_per_node,
                          std::span<const Action> actions, CollectiveBytes& known) {
  return Counter(plan, rank, ranks_per_node, known).run(actions);
}

}  // namespace trireme
