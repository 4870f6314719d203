#include "predict/gradient_traffic.h"

#include "memory/newton_schulz_memory.h"
#include "predict/repeated_actions.h"

namespace trireme {
namespace {

const ZeroShape& zero_of(const RankPlan& rank, const Bucket& bucket) {
  return bucket.is_of_experts ? rank.expert_zero : rank.zero;
}
int num_shards(const ZeroShape& zero) { return zero.level == 0 ? 1 : zero.degree; }

// Visits the buckets of the units of an action, and returns the sum of what `bytes_of` returns.
template <typename BytesOf>
int64_t sum_over_buckets(const RankPlan& rank, const Action& action, BytesOf&& bytes_of) {
  int64_t sum = 0;
  for (const PlacedBucket& placed : rank.chunks[size_t(action.chunk)].buckets) {
    const int unit = placed.bucket.unit;
    const bool is_meant = action.num_units == 0 || (unit >= action.first_unit &&
                                                    unit < action.first_unit + action.num_units);
    if (is_meant) sum += bytes_of(placed);
  }
  return sum;
}

}  // namespace

int64_t GradientTraffic::sent_in_reduce(const RankPlan& rank, const Action& action) {
  const RankGroups groups = groups_of(rank);
  return sum_over_buckets(rank, action,
                          [&](const PlacedBucket& placed) { return reduced(groups, placed); });
}

int64_t GradientTraffic::sent_in_unshard(const RankPlan& rank, const Action& action) {
  const RankGroups groups = groups_of(rank);
  const ChunkTables& chunk = rank.chunks[size_t(action.chunk)];
  return sum_over_buckets(rank, action, [&](const PlacedBucket& placed) {
    return chunk.is_gathered_in_step(placed.bucket) ? gathered(groups, placed) : 0;
  });
}

int64_t GradientTraffic::sent_in_join(const RankPlan& rank, const Action& action) const {
  return sum_over_buckets(rank, action, [&](const PlacedBucket& placed) {
    const TableRange summed =
        rank.joins_directions_first ? placed.bucket.grads() : placed.shard.grads;
    return summed.count > 0 ? pair_bytes(action.peer, summed.count) : 0;
  });
}

AxisCounts GradientTraffic::sent_in_tied_join(const RankPlan& rank, const Action& action) {
  AxisCounts bytes = {};
  if (action.peer == kOwnRank) return bytes;
  if (!tied_) tied_ = tied_join(plan_);
  const std::optional<TiedShare> share = tied_->share_of(rank.coords);
  const TiedEnd& end = tied_->ends[size_t(share->end)];
  // However the piece is cut into pairs, each of two ranks sends what they sum once.
  bytes[kPp] = pair_bytes(action.peer, end.piece(share->piece).count);
  const RankGroups groups = groups_of(rank);
  bytes[kDp] = groups.sent({.collective = Collective::AllGather,
                            .group = groups.along(MeshAxis::Dp, end.sharing, end.shards),
                            .rank = share->copy,
                            .count = share->part.count,
                            .counts = share->counts,
                            .dtype = plan_.shape.grad,
                            .canonical = is_canonical()});
  return bytes;
}

AxisCounts GradientTraffic::sent_in_step(const RankPlan& rank) const {
  const RankGroups groups = groups_of(rank);
  AxisCounts bytes = {};
  // Sums the addends of neighbours along an axis, `step` coordinates apart.
  const auto summed = [&](MeshAxis axis, int addends, int step, int64_t count) {
    return groups.sent({.group = groups.along(axis, addends, step),
                        .rank = rank.coords.along(axis) / step % addends,
                        .count = count,
                        .dtype = plan_.shape.grad,
                        .canonical = true});
  };
  for (const ChunkTables& chunk : rank.chunks) {
    for (const OwnedParam& owned : chunk.owned) {
      if (!owned.has_grad()) continue;
      const ParamLayout& layout = chunk.layouts[owned.param];
      const int uses = owned.second_use_begin >= 0 ? 2 : 1;
      const int step = plan_.mesh.cp / layout.cp_addends;
      bytes[kCp] += uses * summed(MeshAxis::Cp, layout.cp_addends, step, owned.count);
      bytes[kTp] += summed(MeshAxis::Tp, layout.grad_addends, 1, owned.count);
      if (owned.takes_muon) bytes[kTp] += gathered_for_muon(groups, chunk.matrices[owned.param]);
    }
  }
  return bytes;
}

int64_t GradientTraffic::gathered_for_muon(const RankGroups& groups,
                                           const WholeMatrix& matrix) const {
  if (!matrix.is_gathered()) return 0;
  const RankPlan& rank = groups.rank();
  const DType dtype = newton_schulz_memory(matrix, plan_.shape.compute).dtype;
  return groups.sent({.collective = Collective::AllGather,
                      .group = groups.along(MeshAxis::Tp, rank.shape.tp),
                      .rank = rank.coords.tp,
                      .count = matrix.rows * matrix.cols,
                      .counts = matrix.counts(),
                      .dtype = dtype});
}

// Returns the bytes that a rank sends when it sums gradients with another rank of the pipeline.
int64_t GradientTraffic::pair_bytes(int side, int64_t count) const {
  return sent_by_rank({.group = {0, {2, plan_.num_ranks() - 1}, {}},
                       .rank = side == kPeerBehind ? 0 : 1,
                       .count = count,
                       .dtype = plan_.shape.grad,
                       .canonical = is_canonical()},
                      collective_bytes_);
}

GradientTraffic::ShardedBucket& GradientTraffic::sharded(const Bucket& bucket,
                                                         const ZeroShape& zero) {
  const int shards = num_shards(zero);
  std::vector<int64_t> key = numbers_of(bucket);
  key.push_back(shards);  // places of a pipeline may have degrees of their own
  const auto [found, is_new] = buckets_.try_emplace(std::move(key));
  ShardedBucket& result = found->second;
  if (!is_new) return result;
  for (int i = 0; i < shards; ++i) {
    const Shard shard = shard_ranges(bucket, zero.num_holders(), i);
    result.grads.push_back(shard.grads.count);
    result.params.push_back(shard.params.count);
  }
  return result;
}

// Returns the bytes of one bucket's gradients: each group of shards reduces and scatters them, and
// then the ranks that have the same shard sum it.
int64_t GradientTraffic::reduced(const RankGroups& groups, const PlacedBucket& placed) {
  if (placed.bucket.grads().count == 0) return 0;
  const RankPlan& rank = groups.rank();
  const ZeroShape& zero = zero_of(rank, placed.bucket);
  const int stride = holder_stride(placed.bucket);
  const int shards = num_shards(zero);
  const int replicas = plan_.mesh.dp_at(rank.coords.pp) / stride / shards;
  const int64_t summed =
      groups.sent({.group = groups.along(MeshAxis::Dp, replicas, stride * shards),
                   .rank = rank.coords.dp / stride / shards,
                   .count = placed.shard.grads.count,
                   .dtype = plan_.shape.grad,
                   .canonical = is_canonical()});
  if (shards == 1) return summed;
  ShardedBucket& bucket = sharded(placed.bucket, zero);
  const GroupPlace place = groups.along(MeshAxis::Dp, shards, stride);
  const auto [bytes, is_new] =
      bucket.reduced.try_emplace({zero.index, place.normalized(groups.nodes()).first}, 0);
  if (is_new) {
    bytes->second = groups.sent({.collective = Collective::ReduceScatter,
                                 .group = place,
                                 .rank = zero.index,
                                 .count = placed.bucket.grads().count,
                                 .counts = bucket.grads,
                                 .dtype = plan_.shape.grad,
                                 .canonical = is_canonical()});
  }
  return bytes->second + summed;
}

// Returns the bytes of one bucket's parameters, which the ranks gather that hold their shards.
int64_t GradientTraffic::gathered(const RankGroups& groups, const PlacedBucket& placed) {
  const int64_t total = placed.bucket.params().count;
  if (total == 0) return 0;
  const ZeroShape& zero = zero_of(groups.rank(), placed.bucket);
  ShardedBucket& bucket = sharded(placed.bucket, zero);
  const GroupPlace place =
      groups.along(MeshAxis::Dp, num_shards(zero), holder_stride(placed.bucket));
  const auto [bytes, is_new] =
      bucket.gathered.try_emplace({zero.index, place.normalized(groups.nodes()).first}, 0);
  if (is_new) {
    bytes->second = groups.sent({.collective = Collective::AllGather,
                                 .group = place,
                                 .rank = zero.index,
                                 .count = total,
                                 .counts = bucket.params,
                                 .dtype = plan_.shape.compute,
                                 .canonical = is_canonical()});
  }
  return bytes->second;
}

}  // namespace trireme
