#pragma once

#include "autoparallel/stage_search.h"
#include "base/result.h"

namespace trireme {

// Returns an error that says why no plan of a run fits: which part of the model needs more memory
// than a rank has even if all ranks share it, and what would relax that.
Error refuse_plan(const PlannedRun& run);

}  // namespace trireme
