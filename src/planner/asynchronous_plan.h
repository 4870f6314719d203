#pragma once

#include "compile/run_plan.h"

namespace trireme {

// parallel.staleness > 0: what each of parallel.dp workers executes with its part of the batch, a
// plan of one rank. The server, one rank more, holds the same. A step is one push of every worker.
Result<RunPlan> make_asynchronous_plan(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
