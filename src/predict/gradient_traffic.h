#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compile/tied_join.h"
#include "predict/axis_counts.h"
#include "predict/rank_groups.h"

namespace trireme {

// Counts the bytes of gradients and parameters that a rank sends beside the units: buckets to other
// dp ranks, joins with other ranks of the pipeline, and what Step sums and gathers. Buckets that
// are cut alike share their answers. The arguments must live as long as this.
class GradientTraffic {
 public:
  GradientTraffic(const RunPlan& plan, CollectiveBytes& collective_bytes)
      : plan_(plan), collective_bytes_(collective_bytes) {}

  // Each of these returns the bytes that `rank` sends for one of repeated_actions of the kind that
  // the name says, over dp, over pp or, in the join of a tied table, over both.
  int64_t sent_in_reduce(const RankPlan& rank, const Action& action);
  int64_t sent_in_unshard(const RankPlan& rank, const Action& action);
  int64_t sent_in_join(const RankPlan& rank, const Action& action) const;
  AxisCounts sent_in_tied_join(const RankPlan& rank, const Action& action);
  // Returns the bytes of the partial gradients that tp and cp ranks sum in Step, and of the parts
  // that Muon gathers over tp.
  AxisCounts sent_in_step(const RankPlan& rank) const;

 private:
  // The size of each shard of a bucket and the bytes that its rank sends, [shard, first position of
  // its group in a node].
  struct ShardedBucket {
    std::vector<int64_t> grads, params;
    std::map<std::pair<int, int64_t>, int64_t> reduced, gathered;
  };

  RankGroups groups_of(const RankPlan& rank) const { return {plan_.mesh, rank, collective_bytes_}; }
  bool is_canonical() const { return plan_.mode == AccumulateMode::Layout; }
  // The distance along dp between ranks that hold the same parameters of a bucket.
  int holder_stride(const Bucket& bucket) const {
    return bucket.is_of_experts ? plan_.mesh.ep_dp() : 1;
  }
  ShardedBucket& sharded(const Bucket& bucket, const ZeroShape& zero);
  int64_t reduced(const RankGroups& groups, const PlacedBucket& placed);
  int64_t gathered(const RankGroups& groups, const PlacedBucket& placed);
  int64_t pair_bytes(int side, int64_t count) const;
  int64_t gathered_for_muon(const RankGroups& groups, const WholeMatrix& matrix) const;

  const RunPlan& plan_;
  CollectiveBytes& collective_bytes_;
  std::map<std::vector<int64_t>, ShardedBucket> buckets_;  // [numbers of the bucket, shards]
  std::optional<TiedJoin> tied_;
};

}  // namespace trireme
