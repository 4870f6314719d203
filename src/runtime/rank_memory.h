#pragma once

#include "device/arena.h"
#include "device/thread_team.h"
#include "models/transformer_stage.h"
#include "spec/memory_plan.h"

namespace trireme {

// The arena of one rank, laid out as planned. Everything permanent is live from the start.
class RankMemory {
 public:
  // Reserves the arena and touches all of it with the team's threads.
  RankMemory(const MemoryPlan& plan, ThreadTeam& team);

  // The memory of a region, whether live or not.
  void* at(int region) const { return places_[region]; }
  StageMemory stage_memory() const;
  std::span<std::byte> workspace() const;

  void acquire(const std::vector<int>& regions);
  void release(const std::vector<int>& regions);
  int64_t peak_bytes() const { return arena_.peak_bytes(); }

 private:
  ArenaBlock block(int region) const;

  const MemoryPlan& plan_;
  Arena arena_;
  std::vector<void*> places_;
};

}  // namespace trireme
