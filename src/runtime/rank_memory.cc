#include "runtime/rank_memory.h"

namespace trireme {

RankMemory::RankMemory(const MemoryPlan& plan, ThreadTeam& team)
    : plan_(plan), arena_(plan.arena_bytes) {
  const int num_parts = 8 * team.size();
  team.parallel_for(num_parts, [&](int64_t part, int) { arena_.touch(int(part), num_parts); });
  for (size_t region = 0; region < plan.regions.size(); ++region) {
    places_.push_back(arena_.place(block(int(region))));
  }
  acquire(plan.permanent);
}

ArenaBlock RankMemory::block(int region) const {
  return {plan_.regions[region].offset, plan_.regions[region].bytes};
}

StageMemory RankMemory::stage_memory() const {
  StageMemory memory;
  memory.params = at(plan_.params);
  memory.scratch = at(plan_.scratch);
  for (int region : plan_.grad_slots) memory.grad_slots.push_back(at(region));
  for (int region : plan_.saved_slots) memory.saved_slots.push_back(at(region));
  for (int region : plan_.weight_grad_slots) memory.weight_grad_slots.push_back(at(region));
  return memory;
}

std::span<std::byte> RankMemory::workspace() const {
  return {static_cast<std::byte*>(at(plan_.workspace)),
          size_t(plan_.regions[plan_.workspace].bytes)};
}

void RankMemory::acquire(const std::vector<int>& regions) {
  for (int region : regions) arena_.acquire(block(region));
}

void RankMemory::release(const std::vector<int>& regions) {
  for (int region : regions) arena_.release(block(region));
}

}  // namespace trireme
