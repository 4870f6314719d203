#include "runtime/rank_memory.h"

namespace trireme {

RankMemory::RankMemory(const RankPlan& plan, void* memory, ThreadTeam& team)
    : plan_(plan), arena_({static_cast<std::byte*>(memory), size_t(plan.memory.arena_bytes)}) {
  const int num_parts = 8 * team.size();
  team.parallel_for(num_parts, [&](int64_t part, int) { arena_.touch(int(part), num_parts); });
  for (size_t region = 0; region < plan.memory.regions.size(); ++region) {
    places_.push_back(arena_.place(block(int(region))));
  }
  acquire(plan.memory.permanent);
}

ArenaBlock RankMemory::block(int region) const {
  const MemoryRegion& planned = plan_.memory.regions[size_t(region)];
  return {planned.offset, planned.bytes};
}

TensorRef RankMemory::elements(int region, DType dtype, int64_t first, int64_t count) const {
  return {static_cast<char*>(at(region)) + first * size_of(dtype), dtype, Shape{count}};
}

void* RankMemory::unit_params(int chunk, int unit) const {
  const ChunkRegions& regions = plan_.memory.chunks[size_t(chunk)];
  if (regions.unit_params.empty()) return at(regions.params);
  const ChunkTables& tables = plan_.chunks[size_t(chunk)];
  return static_cast<char*>(at(regions.unit_params[size_t(unit)])) -
         tables.unit_params[size_t(unit)].begin;
}

void* RankMemory::unit_grads(int chunk, int unit) const {
  const ChunkRegions& regions = plan_.memory.chunks[size_t(chunk)];
  const ChunkTables& tables = plan_.chunks[size_t(chunk)];
  return static_cast<char*>(at(regions.unit_grads[size_t(unit)])) -
         tables.unit_grads[size_t(unit)].begin;
}

StageMemory RankMemory::stage_memory(int chunk) const {
  const ChunkRegions& regions = plan_.memory.chunks[size_t(chunk)];
  const int units = num_units(plan_.chunks[size_t(chunk)].stage);
  StageMemory memory;
  memory.scratch = at(regions.scratch);
  for (int unit = 0; unit < units; ++unit) memory.unit_params.push_back(unit_params(chunk, unit));
  if (regions.unit_grads.empty()) {
    for (int region : regions.grad_slots) {
      memory.grad_slots.push_back(std::vector<void*>(size_t(units), at(region)));
    }
  } else {
    std::vector<void*> buffers;
    for (int unit = 0; unit < units; ++unit) buffers.push_back(unit_grads(chunk, unit));
    memory.grad_slots.push_back(std::move(buffers));
  }
  for (int region : regions.saved_slots) memory.saved_slots.push_back(at(region));
  for (int region : regions.weight_grad_slots) memory.weight_grad_slots.push_back(at(region));
  return memory;
}

std::span<std::byte> RankMemory::workspace() const {
  const int region = plan_.memory.workspace;
  return {static_cast<std::byte*>(at(region)), size_t(plan_.memory.regions[size_t(region)].bytes)};
}

void RankMemory::acquire(const std::vector<int>& regions) {
  for (int region : regions) arena_.acquire(block(region));
}

void RankMemory::release(const std::vector<int>& regions) {
  for (int region : regions) arena_.release(block(region));
}

}  // namespace trireme
