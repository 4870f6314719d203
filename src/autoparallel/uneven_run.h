#pragma once

#include "autoparallel/plan_search.h"
#include "base/result.h"

namespace trireme {

// Returns the configuration that trains by a plan whose stages have degrees of dp and numbers of
// layers of their own (parallel.stage_dp, parallel.stage_layers): all ops share out whole
// sequences, and all units compute the same values again. A rank of a stage with fewer ranks takes
// the sequences of a micro-batch one after the other, where the search has priced them together. If
// the plan is none of these, the error says what a run cannot have.
Result<RunConfig> uneven_config(const FoundPlan& plan, const RunConfig& config);

}  // namespace trireme
