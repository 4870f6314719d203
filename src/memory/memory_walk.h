#pragma once

#include <vector>

#include "memory/memory_plan.h"

namespace trireme {

// Walks a Program as the executor will: what is taken before an action and given back after it.
// Adds the regions that it needs to the plan. `forward_only`: what was saved dies with the next
// stage.
std::vector<ActionMemory> walk_memory(const Program& program, const MemoryNeeds& needs,
                                      bool forward_only, MemoryPlan& plan);

}  // namespace trireme
