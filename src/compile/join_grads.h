#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Passes that sum the gradients of a stage that several ranks of a pipeline hold, before Step.

// Sums each stage's gradients of the two directions, which this rank and its mirrored rank have.
// Both ranks visit the stages in the same order, so they cannot deadlock.
void join_directions(Program& program, const RankPlan& rank, int pp);

// Sums the gradients of a tied table, which the first and the last stage both hold.
void join_tied_table(Program& program, const RunPlan& plan, const RankPlan& rank);

}  // namespace trireme
