#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Fills in plan.classes and plan.class_of. The pipeline must be outlined. The memory of the classes
// is not set.
void classify_ranks(RunPlan& plan);

// Returns what decides the memory of a rank's stages: for every chunk the number of its layers and
// whether it has the embedding and the head.
std::vector<int64_t> content_of(const RankPlan& rank);

}  // namespace trireme
