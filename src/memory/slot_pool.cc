#include "memory/slot_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/align.h"
#include "base/check.h"

namespace trireme {

int add_region(MemoryPlan& plan, std::string name, MemoryClass memory_class, int64_t bytes) {
  plan.regions.push_back({std::move(name), memory_class, 0, aligned_bytes(bytes)});
  return static_cast<int>(plan.regions.size()) - 1;
}

SlotPool::SlotPool(MemoryPlan& plan, std::vector<int>& slots, std::string name,
                   MemoryClass memory_class, int64_t bytes)
    : plan_(plan),
      slots_(slots),
      name_(std::move(name)),
      class_(memory_class),
      bytes_(bytes),
      taken_(slots.size(), false) {}

int SlotPool::take(ActionMemory& memory) {
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  const int slot = static_cast<int>(free - taken_.begin());
  take(slot, memory);
  return slot;
}

void SlotPool::take(int slot, ActionMemory& memory) {
  while (static_cast<int>(taken_.size()) <= slot) add();
  if (taken_[slot]) return;
  const std::vector<int>& released = memory.release;
  TRIREME_CHECK(std::find(released.begin(), released.end(), slots_[slot]) == released.end(),
                "an action takes what it gives back");
  taken_[slot] = true;
  memory.acquire.push_back(slots_[slot]);
}

void SlotPool::give_back(int slot, ActionMemory& memory) {
  taken_[slot] = false;
  memory.release.push_back(slots_[slot]);
}

void SlotPool::add() {
  slots_.push_back(add_region(plan_, fmt::format("{}[{}]", name_, taken_.size()), class_, bytes_));
  taken_.push_back(false);
}

}  // namespace trireme
