#pragma once

#include <vector>

#include "program/check.h"
#include "program/data_parallel.h"
#include "program/stage_graph.h"

namespace trireme {

// What one rank's program must keep once gradients are reduced over dp and parameters gathered:
//   reduce  every unit's gradient is reduced once (levels 2 and 3: once for each micro-batch),
//           behind all that makes it and before what reads it; nothing where dp is 1
//   gather  a unit's parameters are there when they are read, in memory that no other unit has
//           taken, and given up before Step writes its shards; levels 1 and 2: gathered once behind
//           Step, and stored where they lie in a file
//   step    Step stands once, behind all that computes; Validate behind it where the rank wants it
// Positions are those of the program; Problem::rank is left to the caller.
std::vector<Problem> check_gradients(const Program& program, const DataParallelShape& shape,
                                     const std::vector<MicrobatchRange>& microbatches, int dp);
std::vector<Problem> check_gathered(const Program& program, const DataParallelShape& shape);

}  // namespace trireme
