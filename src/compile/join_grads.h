#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Passes that join the gradients of a stage that several ranks of a pipeline hold, before Step.

// Each direction's gradient of a stage is joined with that of the other, which the mirrored rank
// has; both ranks go through the stages in one order.
void join_directions(Program& program, const RankPlan& rank, int pp);

// The first and the last stage hold a tied table each: their gradients are joined before Step.
void join_tied_table(Program& program, const RunPlan& plan, const RankPlan& rank);

}  // namespace trireme
