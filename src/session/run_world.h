#pragma once

#include <functional>

#include "base/result.h"
#include "comm/world.h"
#include "compile/run_plan.h"
#include "session/session.h"

namespace trireme {

// Returns the deadlines, link costs, signals and progress page of the world of a session.
WorldOptions world_options(const SessionOptions& options, const RunPlan& plan);

// A Usage error if run.backend = "tcp" and this process was not started by a launcher.
Status check_launched(const SessionOptions& options);

// Calls `rank` on every rank of this process: on all ranks of the plan, as threads, or on one rank
// if a launcher or mpirun has started a process for each. A Usage error if the number of processes
// differs from the plan. Throws RankError if a rank fails.
Status run_world(const RunPlan& plan, const SessionOptions& session,
                 const std::function<void(World&)>& rank);

}  // namespace trireme
