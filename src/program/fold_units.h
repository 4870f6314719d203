#pragma once

#include <vector>

#include "program/check.h"
#include "program/data_parallel.h"

namespace trireme {

// A rank's program as it was before the passes of data parallelism: parts of one F, B, W, BW or Sum
// are one action again, where the last of them stood; a leaf of levels 2 and 3 has the gradient
// slot of its ReduceGrad; what gathers, reduces over dp or moves memory is left out.
struct FoldedProgram {
  Program program;
  std::vector<int> positions;  // [action] in the program that was folded
  // Parts out of order, missing, or with other work between them ("units"), in positions of the
  // program that was folded.
  std::vector<Problem> problems;
};
FoldedProgram fold_units(const Program& program, const DataParallelShape& shape);

}  // namespace trireme
