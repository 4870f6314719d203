#pragma once

#include <vector>

#include "program/check.h"
#include "program/data_parallel.h"

namespace trireme {

// A rank's program with the passes of data parallelism undone. The parts of one F, B, W, BW or Sum
// are one action again, at the position of the last part. A leaf of levels 2 and 3 has the gradient
// slot of its ReduceGrad. Actions that gather, reduce over dp or move memory are left out.
struct FoldedProgram {
  Program program;
  std::vector<int> positions;  // [action] position in the original program
  // Parts that are out of order, missing, or separated by other work (rule "units"), with positions
  // in the original program.
  std::vector<Problem> problems;
};
FoldedProgram fold_units(const Program& program, const DataParallelShape& shape);

}  // namespace trireme
