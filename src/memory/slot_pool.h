#pragma once

#include <string>
#include <vector>

#include "memory/memory_plan.h"

namespace trireme {

// With room for `bytes`.
int add_region(MemoryPlan& plan, std::string name, MemoryClass memory_class, int64_t bytes);

// Interchangeable pieces of equal size: the lowest free one is taken, so their number is the
// greatest number that is live at one time.
class SlotPool {
 public:
  SlotPool(MemoryPlan& plan, std::vector<int>& slots, std::string name, MemoryClass memory_class,
           int64_t bytes);

  int take(ActionMemory& memory);
  // A particular slot, as the Program names it; nothing if it is taken already.
  void take(int slot, ActionMemory& memory);
  void give_back(int slot, ActionMemory& memory);

 private:
  void add();

  MemoryPlan& plan_;
  std::vector<int>& slots_;
  std::string name_;
  MemoryClass class_;
  int64_t bytes_;
  std::vector<bool> taken_;
};

}  // namespace trireme
