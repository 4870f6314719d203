#pragma once

#include <vector>

#include "program/check.h"
#include "program/data_parallel.h"
#include "program/stage_graph.h"

namespace trireme {

// The rules of one rank's program after the passes for gradient reductions over dp and for gathers
// of parameters:
// reduce  every unit's gradient is reduced once (levels 2 and 3: once for each micro-batch), after
// all actions that compute it and before those that read it; never if dp is 1
// gather  a unit's parameters are present when they are read, in memory that no other unit has
// taken, and released before Step writes its shards; levels 1 and 2: gathered once after Step, and
// written to the file if they are offloaded
// step    there is one Step, after everything that computes; Validate follows if the rank validates
// Positions are those of the program. The caller sets Problem::rank.
std::vector<Problem> check_gradients(const Program& program, const DataParallelShape& shape,
                                     const std::vector<MicrobatchRange>& microbatches, int dp);
std::vector<Problem> check_gathered(const Program& program, const DataParallelShape& shape);

}  // namespace trireme
