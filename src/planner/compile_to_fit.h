#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Bytes to compare with a memory limit: those of the largest rank if memory.limit_bytes is set,
// else of all ranks together, because they share their host's memory.
int64_t bytes_to_fit(const RunPlan& plan);

// Like compile_plan, but within a limit: the buffer of checkpoint.asynchronous is left out if the
// plan does not fit with it, memory.recompute = "fit" takes the cheapest values to
// compute again, and parallel.schedule = "auto" then the fastest schedule found. `limit` 0 means no
// limit. A plan that does not fit is not an error here.
Status compile_to_fit(RunPlan& plan, int64_t limit);

}  // namespace trireme
