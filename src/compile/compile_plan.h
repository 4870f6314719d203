#pragma once

#include "base/result.h"
#include "compile/plan_parts.h"
#include "compile/run_plan.h"

namespace trireme {

// Compiles a plan whose configuration, model, mesh, shape and batch are set: fills in the schedule,
// the pipeline, the classes and their memory. Infeasible if the schedule does not exist for this
// shape.
Status compile_plan(RunPlan& plan);

// compile_plan in two halves, for a search that prices most layouts without the second one. The
// first half makes the schedule and the places and stages of the ranks of one pipeline, which is
// enough to simulate it.
Status outline_pipeline(RunPlan& plan, PlanParts& parts);
// The second half. It leaves out the checks of a whole pipeline (check_ranks.h).
void compile_outlined(RunPlan& plan, PlanParts& parts);

}  // namespace trireme
