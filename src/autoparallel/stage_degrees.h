#pragma once

#include <cstdint>
#include <vector>

#include "autoparallel/plan_search.h"

namespace trireme {

// Adds the best plan whose stages have degrees and layers of their own and that a run can have
// (uneven_run.h), for micro-batches of this size and every way to recompute and to share the
// residual stream: all ops of a stage share out whole sequences, heads and hidden units in one way.
// A plan that a rule of runs refuses (refuse_run) is left out.
void add_plans_by_stage(const PlannedRun& run, int64_t sequences, const std::vector<int>& operators,
                        std::vector<FoundPlan>& found);

}  // namespace trireme
