#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "graph/layer_keep.h"
#include "graph/moves.h"
#include "predict/axis_counts.h"
#include "predict/rank_groups.h"

namespace trireme {

// Counts the bytes that a rank sends while it computes the units of a chunk: tensors to other tp
// ranks and sums of batch norms to dp ranks, keys and values to cp ranks, visits of tokens to the
// experts of ep ranks. It caches what ranks and layers have in common. The arguments must live as
// long as this.
class UnitTraffic {
 public:
  UnitTraffic(const RunPlan& plan, CollectiveBytes& collective_bytes)
      : plan_(plan), collective_bytes_(collective_bytes) {}

  // Returns the bytes that `rank` sends in F, B, W or BW of all units of the action's chunk.
  AxisCounts sent(const RankPlan& rank, const Action& action);

 private:
  // The bytes that a rank sends to other cp ranks for one layer.
  struct ContextBytes {
    int64_t forward = 0, backward = 0;
  };

  // These add or return the bytes of one action of the rank that `groups` are of.
  void add_moves(const RankGroups& groups, const Action& action, AxisCounts& bytes);
  void add_list(const RankGroups& groups, const std::vector<TensorMove>& moves,
                AxisCounts& bytes) const;
  void add_pieces(const RankGroups& groups, const TensorMove& move, AxisCounts& bytes) const;
  int64_t context_bytes(const RankGroups& groups, const Action& action);
  ContextBytes context_bytes_of_layer(const RankGroups& groups);
  ContextBytes ring_bytes(const RankGroups& groups, const ModelShard& model);
  int64_t visit_bytes(const RankGroups& groups, const Action& action);
  int64_t num_again(OpKind kind, const RankPlan& rank, const StageSpec& stage);

  const RunPlan& plan_;
  CollectiveBytes& collective_bytes_;
  std::map<int, LayerKeep> layers_;                                         // [kind]
  std::map<int, int64_t> ring_columns_;                                     // [tp]
  std::map<std::tuple<std::vector<int64_t>, int, int>, StageMoves> moves_;  // content, tp, tp rank
};

}  // namespace trireme
