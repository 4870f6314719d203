#pragma once

#include "autoparallel/stage_search.h"
#include "base/result.h"

namespace trireme {

// Why no plan of a run fits: which part of the model needs more than a rank has even where all
// ranks share it, and what would relax that.
Error refuse_plan(const PlannedRun& run);

}  // namespace trireme
