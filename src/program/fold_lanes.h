#pragma once

#include "program/fold_units.h"
#include "program/lanes.h"

namespace trireme {

// A folded program (fold_units.h) with the lanes of its rank undone, too: what every lane does once
// stands once, with the number of the micro-batch in its lane. Sums of gradients are left out.
//
// Rule "lanes": the program consists of parts of at most one transfer, each of which stands for
// every lane, in the order of the lanes. Then messages of one lane and of several are in the same
// order on all ranks, so that a schedule that does not hang with one lane does not hang with
// several.
FoldedProgram fold_lanes(FoldedProgram program, const Lanes& lanes);

}  // namespace trireme
