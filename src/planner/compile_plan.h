#pragma once

#include "base/result.h"
#include "planner/plan_parts.h"
#include "planner/run_plan.h"

namespace trireme {

// Schedule, programs, tables and memory of a plan whose configuration, model, mesh, shape and batch
// are set; fills the rest. Infeasible: a schedule that cannot be.
Status compile_plan(RunPlan& plan);

// The schedule, and of the ranks of one pipeline, those with index 0 on every other axis, their
// places and the stages of their chunks: enough to simulate it.
Status outline_pipeline(RunPlan& plan, PlanParts& parts);

// Of an outlined plan few ranks, enough for a price: those of the pipeline, and of each stage the
// rank whose shards are largest, which needs most memory. Ranks are not checked against each other.
void compile_outlined(RunPlan& plan, PlanParts& parts);

// The memory of a rank whose programs and chunks stand; compile_plan does it for all.
void plan_rank_memory(RankPlan& rank, const RunPlan& plan);

}  // namespace trireme
