#pragma once

#include "base/result.h"
#include "planner/run_plan.h"

namespace trireme {

// Why a compiled plan that needs more than `limit` cannot be: the tensor and the moment of its
// peak, and the cheapest change of `host`'s run that fits, found by plans of each.
Error memory_refusal(const RunPlan& plan, int64_t limit, const HostFacts& host);

}  // namespace trireme
