#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/program.h"
#include "spec/stage_tables.h"

namespace trireme {

enum class MemoryClass { Params, Grads, Optimizer, Activations, Comm, Scratch };
inline constexpr int kNumMemoryClasses = 6;
std::string_view name_of(MemoryClass memory_class);

// A planned piece of the arena and when it is live: from the start of action `first` to the end of
// action `last`, once or several times per step.
struct MemoryRegion {
  std::string name;  // "saved[2]"
  MemoryClass memory_class = MemoryClass::Scratch;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// What one action uses. Slots are indices into MemoryPlan's slot lists; -1: none.
struct ActionMemory {
  int saved_slot = -1;
  int weight_grad_slot = -1;
  std::vector<int> acquire;  // regions that become live before it
  std::vector<int> release;  // regions that are dead after it
};

// Where everything of one rank lies, decided before step 1 from the tables and the Program alone.
struct MemoryPlan {
  std::vector<MemoryRegion> regions;
  std::vector<int>
      permanent;  // live for the whole run: params, optimizer, scratch, workspace, step
  int params = -1, optimizer = -1, scratch = -1, workspace = -1, step = -1;
  std::vector<int> grad_slots, saved_slots, weight_grad_slots;
  std::vector<ActionMemory> actions;  // one per action of the Program

  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;                       // greatest sum of live regions over the Program
  int64_t peak_action = 0;                      // where it is reached first
  int64_t class_bytes[kNumMemoryClasses] = {};  // greatest of each class on its own
};

// The Program must be checked, with gradient slots assigned (program/accumulate.h).
MemoryPlan plan_memory(const Program& program, const StageTables& tables, int64_t workspace_bytes);

// The largest tensor among the regions that are live at the peak: the one to name in a refusal.
std::string largest_tensor(const MemoryPlan& plan, const StageTables& tables);

}  // namespace trireme
