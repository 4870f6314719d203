#pragma once

#include "device/arena.h"
#include "device/thread_team.h"
#include "models/stage.h"
#include "program/rank_plan.h"

namespace trireme {

// The arena of one rank, laid out as planned. Everything permanent is live from the start.
class RankMemory {
 public:
  // Borrows the plan and memory of arena_bytes, and touches all of it with the team's threads.
  RankMemory(const RankPlan& plan, void* memory, ThreadTeam& team);

  // The memory of a region, whether live or not.
  void* at(int region) const { return places_[size_t(region)]; }
  // `count` elements of a region from element `first` on.
  TensorRef elements(int region, DType dtype, int64_t first, int64_t count) const;
  StageMemory stage_memory(int chunk) const;
  std::span<std::byte> workspace() const;
  // Where a unit's tensors would lie if the whole table began here.
  void* unit_params(int chunk, int unit) const;
  void* unit_grads(int chunk, int unit) const;

  void acquire(const std::vector<int>& regions);
  void release(const std::vector<int>& regions);
  int64_t peak_bytes() const { return arena_.peak_bytes(); }

 private:
  ArenaBlock block(int region) const;

  const RankPlan& plan_;
  Arena arena_;
  std::vector<void*> places_;
};

}  // namespace trireme
