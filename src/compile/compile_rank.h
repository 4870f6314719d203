#pragma once

#include "compile/plan_parts.h"
#include "compile/run_plan.h"

namespace trireme {

// Steps that compile one rank, in the order of the passes. rank_plan(plan, position) runs all of
// them.

// True if every stage is held by two ranks, one for each direction (DualPipe).
inline bool has_two_directions(const Schedule& schedule) {
  return schedule.placement == StagePlacement::Bidir;
}

// Returns the rank's place and the stages of its chunks, without tables.
RankPlan outline_rank(const RunPlan& plan, int position);

// Returns the outline with the tables of its chunks and the shards that the rank stores.
// Tables that `parts` has of other plans are taken from there.
RankPlan stored_rank(const RunPlan& plan, int position, PlanParts* parts = nullptr);

// Gives the rank the coordinates of `position` and its indices in the groups that share its tables
// and shards. Tables and shards stay as they are.
void move_to(RankPlan& rank, int position, const RunPlan& plan);

// Moves a stored rank to another dp index: its shards change, its tables do not.
void move_along_dp(RankPlan& rank, int dp, const RunPlan& plan);

// The parts of the model that a rank counts in the gradient norm and writes to checkpoints: of all
// that ranks of dp and cp hold together, one rank counts each part.
struct CountedParts {
  bool rest = false;
  bool experts = false;
};
CountedParts counted_parts(const RankPlan& rank, const Mesh& mesh);

// Returns the stored rank with its programs. rank.memory and rank.num_ahead are not set yet.
RankPlan compile_rank(const RunPlan& plan, int position, PlanParts* parts = nullptr);

// Plans the memory of a rank whose programs and chunks are complete.
void plan_rank_memory(RankPlan& rank, const RunPlan& plan);

}  // namespace trireme
