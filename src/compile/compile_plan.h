#pragma once

#include "base/result.h"
#include "compile/plan_parts.h"
#include "compile/run_plan.h"

namespace trireme {

// Schedule, pipeline, classes and their memory of a plan whose configuration, model, mesh, shape
// and batch are set; fills the rest. Infeasible: a schedule that cannot be.
Status compile_plan(RunPlan& plan);

// The two halves of it, for a search that prices most layouts by their outline alone.
// The schedule, and the places and stages of the ranks of one pipeline: enough to simulate it.
Status outline_pipeline(RunPlan& plan, PlanParts& parts);
// The rest, but for the rules of a whole pipeline (check_ranks.h).
void compile_outlined(RunPlan& plan, PlanParts& parts);

}  // namespace trireme
