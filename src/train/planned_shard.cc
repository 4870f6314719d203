#include "train/planned_shard.h"

#include <string>

#include "checkpoint/state_shard.h"
#include "train/owned_slices.h"

namespace trireme {

std::vector<TensorPiece> planned_pieces(const RankPlan& rank, DType compute) {
  std::vector<TensorPiece> pieces;
  for (const ChunkTables& chunk : rank.chunks) {
    const TensorTable& state = chunk.tables.optimizer;
    for (const OwnedParam& owned : chunk.owned) {
      if (owned.norm_word < 0) continue;
      const ParamLayout& layout = chunk.layouts[owned.param];
      const auto add = [&](const std::string& name, DType dtype) {
        for (const OwnedSlice& part : slices_of(layout, owned.first, owned.count)) {
          pieces.push_back({name, layout.global, dtype, part.slice, nullptr});
        }
      };
      const auto dtype_of = [&](const std::string& name) { return state.at(name).dtype; };
      const std::string master = "master/" + owned.name;
      add(owned.name, state.contains(master) ? dtype_of(master) : compute);
      for (const std::string& name : {"exp_avg/" + owned.name, "exp_avg_sq/" + owned.name}) {
        if (state.contains(name)) add(name, dtype_of(name));
      }
    }
  }
  return pieces;
}

int64_t planned_shard_bytes(const RankPlan& rank, DType compute) {
  return StateShard(planned_pieces(rank, compute), rank.position).bytes();
}

int64_t memory_checkpoint_bytes(const RunPlan& plan, const RankPlan& rank) {
  constexpr int64_t kGenerations = 2;
  if (!wants_memory_checkpoints(plan.config)) return 0;
  return kGenerations * planned_shard_bytes(rank, plan.shape.compute);
}

}  // namespace trireme
