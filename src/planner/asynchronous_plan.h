#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Plans a run with parallel.staleness > 0. Each of parallel.dp workers executes the plan of one
// rank on its part of the batch. The server is one more rank and holds the same parameters. One
// step is one push of every worker.
Result<RunPlan> make_asynchronous_plan(const RunConfig& config, const HostFacts& host);

}  // namespace trireme
