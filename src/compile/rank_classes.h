#pragma once

#include "compile/plan_parts.h"
#include "compile/run_plan.h"

namespace trireme {

// Fills in plan.classes and plan.class_of. The pipeline must be outlined. The memory of the classes
// is not set.
void classify_ranks(RunPlan& plan, PlanParts& parts);

// Returns what decides the memory of a rank's stages: the contents of its chunks, one after the
// other.
std::vector<int64_t> content_of(const ModelSpec& model, const RankPlan& rank);

}  // namespace trireme
