#pragma once

#include "base/result.h"
#include "compile/plan_parts.h"
#include "compile/run_plan.h"

namespace trireme {

// Compiles a plan whose configuration, model, mesh, shape and batch are set: fills in the schedule,
// the pipeline, the classes and their memory. Infeasible if the schedule does not exist for this
// shape.
Status compile_plan(RunPlan& plan);

// compile_plan in three parts, for a search that prices most layouts without the later ones. The
// first part makes the schedule and the places and stages of the ranks of one pipeline, which is
// enough to simulate it.
Status outline_pipeline(RunPlan& plan, PlanParts& parts);
// The second part makes the program and the shards of one of these ranks, which are enough to price
// its step.
void compile_outlined_rank(RunPlan& plan, int pp, PlanParts& parts);
// The third part plans the memory of the pipeline, and then of all classes of ranks.
void plan_pipeline_memory(RunPlan& plan);
void plan_class_memory(RunPlan& plan, PlanParts& parts);
// The second part for all ranks, and the third one. It leaves out the checks of a whole pipeline
// (check_ranks.h).
void compile_outlined(RunPlan& plan, PlanParts& parts);

}  // namespace trireme
