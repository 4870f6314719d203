#pragma once

#include "base/result.h"
#include "compile/run_plan.h"
#include "spec/hardware.h"
#include "spec/run_config.h"

namespace trireme {

// This machine as the plan needs it.
HostFacts this_host();

// What each rank of a run would have here if all were threads of this process, measured now: its
// part of the ceilings, and what the ranks' calls to each other take.
Result<Hardware> measure_this_machine(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
