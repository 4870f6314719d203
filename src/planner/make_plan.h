#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Usage errors name the key; Infeasible ones name the tensor, the moment and the cheapest change
// that would fit.
Result<RunPlan> make_plan(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
