#pragma once

#include "base/result.h"
#include "planner/run_plan.h"

namespace trireme {

// Schedule, programs, tables and memory of a plan whose configuration, model, mesh, shape and batch
// are set; fills the rest. Infeasible: a schedule that cannot be.
Status compile_plan(RunPlan& plan);

// The memory of a rank whose programs and chunks stand; compile_plan does it for all.
void plan_rank_memory(RankPlan& rank, const RunPlan& plan);

}  // namespace trireme
