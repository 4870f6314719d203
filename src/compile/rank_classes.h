#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Fills classes and class_of of a plan whose pipeline is outlined, but for the classes' memory.
void classify_ranks(RunPlan& plan);

// What decides the memory of a stage, whichever layers of the model they are: for every chunk of a
// rank the number of its layers, and whether it has the embedding and the head.
std::vector<int64_t> content_of(const RankPlan& rank);

}  // namespace trireme
