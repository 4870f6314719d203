#pragma once

#include "base/result.h"
#include "planner/run_plan.h"
#include "spec/hardware.h"
#include "spec/run_config.h"

namespace trireme {

// This machine as the plan needs it.
HostFacts this_host();

// What a run would have here: the ceilings of its kernels on its threads, measured now.
Result<Hardware> measure_this_machine(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
