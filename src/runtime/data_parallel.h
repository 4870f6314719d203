#pragma once

#include <vector>

#include "comm/group.h"
#include "nn/ctx.h"
#include "runtime/rank_memory.h"
#include "runtime/tied_sum.h"

namespace trireme {

// The groups over which a rank's gradients and parameters are combined.
struct DataParallelGroups {
  Group& shards;    // those that hold the shards of one copy; one rank where nothing is sharded
  Group& replicas;  // those that hold the same shard of other copies
  TiedSum& tied;    // over the ranks of the pipeline that hold a tied table
  Group& mirror;    // the two that hold the same stages for opposite directions
  Group& expert_shards;  // as shards and replicas, of the ranks that hold the same experts
  Group& expert_replicas;
};

// Gradients summed over data-parallel ranks, parameters gathered from their shards. Collectives run
// on the communication thread, in the order of their actions.
class DataParallel {
 public:
  DataParallel(const RankPlan& plan, const RankMemory& memory, const DataParallelGroups& groups,
               Algorithm algorithm);

  void start_reduce(const Action& action);
  // From now on, the hash of what this rank adds to each sum is appended to `hashes`, before the
  // sum starts. Null: no longer.
  void hash_addends(std::vector<uint64_t>* hashes) { addend_hashes_ = hashes; }
  // Waits for the oldest reductions and brings their results where they belong.
  void finish_reduces(Ctx& ctx, int count);
  void finish_all_reduces(Ctx& ctx) { finish_reduces(ctx, int(num_reduces_)); }
  // Sums the gradients of a stage's two directions, on both ranks that have one.
  void join_directions(const Action& action);
  // Sums the gradients of the two uses of a tied table, on all ranks that hold it.
  void join_tied_table(Ctx& ctx, const Action& action);

  // Where every rank stores all parameters, what is never trained is gathered only at first.
  enum class Gather { AtFirst, InStep };
  void start_unshard(const Action& action, Gather gather = Gather::InStep);
  // Before a part that reads the units' parameters.
  void finish_unshard(const Action& action);
  void finish_all_unshards();

  int64_t waited_ns() const { return waited_ns_; }

 private:
  // What one bucket needs, found before step 1.
  struct Piece {
    Group* shards = nullptr;
    Group* replicas = nullptr;
    TensorRef grads;                      // level 0 and 1: of slot 0; else of the unit's buffer
    TensorRef grad_shard;                 // this rank's part of them, in place
    std::vector<TensorRef> stored_grads;  // [gradient slot] the shard where it is stored
    TensorRef params;
    bool is_gathered_in_step = true;
    TensorRef param_shard;                           // where this rank's part is stored
    std::vector<int64_t> grad_counts, param_counts;  // [rank of shards]
  };
  struct Reduce {
    Action action;
    std::vector<Work> works;  // [bucket of the action's units]
  };

  Piece make_piece(int chunk, const PlacedBucket& placed) const;
  TensorRef reduced(const Piece& piece, const Action& action) const;
  TensorRef of_direction(const Piece& piece) const;
  CollectiveArgs sum(const TensorRef& grads) const;
  CollectiveArgs sum_to_shards(const Piece& piece, const TensorRef& into) const;
  CollectiveArgs gather(const Piece& piece) const;
  // Makes the groups ready for all that the Program will ask of them.
  void reserve_collectives();
  void reserve_reduce(const Action& action);
  void finish(Ctx& ctx, Reduce& reduce);
  TensorRef tied_grad(int chunk) const;
  template <typename Visit>
  void for_each_piece(const Action& action, Visit&& visit) const;
  template <typename Visit>
  void for_each_gradient(const Action& action, Visit&& visit) const;
  void wait(Work& work);
  const ZeroShape& zero() const { return plan_.zero; }

  const RankPlan& plan_;
  const RankMemory& memory_;
  DataParallelGroups groups_;
  Algorithm algorithm_;
  std::vector<std::vector<std::vector<Piece>>> pieces_;   // [chunk][unit]
  std::vector<std::vector<std::vector<Work>>> unshards_;  // [chunk][unit] under way
  std::vector<Reduce> reduces_;  // a ring, so that a step allocates nothing
  std::vector<uint64_t>* addend_hashes_ = nullptr;
  size_t first_reduce_ = 0;
  size_t num_reduces_ = 0;
  int64_t waited_ns_ = 0;
};

}  // namespace trireme
