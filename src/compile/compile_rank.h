#pragma once

#include "compile/run_plan.h"

namespace trireme {

// What is compiled of one rank, in the order of the passes. rank_plan(plan, position) does it all.

// True if every stage stands on two ranks, one for each direction (DualPipe).
inline bool has_two_directions(const Schedule& schedule) {
  return schedule.placement == StagePlacement::Bidir;
}

// The rank's place and the stages of its chunks, without their tables.
RankPlan outline_rank(const RunPlan& plan, int position);

// The outline with the tables of its chunks and what the rank stores of them.
RankPlan stored_rank(const RunPlan& plan, int position);

// Gives a rank the coordinates of a position, and its places among those that share its tables and
// its shards. What the rank holds is as before.
void move_to(RankPlan& rank, int position, const RunPlan& plan);

// Moves a stored rank to another dp index: its shards change, its tables do not.
void move_along_dp(RankPlan& rank, int dp, const RunPlan& plan);

// The stored rank with its programs. Memory and what runs ahead of Validate are still missing.
RankPlan compile_rank(const RunPlan& plan, int position);

// The memory of a rank whose programs and chunks stand.
void plan_rank_memory(RankPlan& rank, const RunPlan& plan);

}  // namespace trireme
