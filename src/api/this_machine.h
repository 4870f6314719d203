#pragma once

#include "base/result.h"
#include "compile/run_plan.h"
#include "schema/hardware.h"
#include "schema/run_config.h"

namespace trireme {

// The facts about this machine that planning needs.
HostFacts this_host();

// Measures what each rank of a run would have here if all ranks were threads of this process: its
// share of the ceilings, and the cost of calls between ranks.
Result<Hardware> measure_this_machine(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
