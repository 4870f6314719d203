#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Bytes to compare with a memory limit: those of the largest rank if memory.limit_bytes is set,
// else of all ranks together, because they share their host's memory.
int64_t bytes_to_fit(const RunPlan& plan);

// Lower bound of bytes_to_fit() for this model on this number of ranks, whatever is computed again,
// sharded or moved into files: every gradient lies in the memory of some rank. 0 if parameters are
// frozen.
int64_t least_bytes_of_gradients(const RunPlan& plan);

// Lower bound of bytes_to_fit() for this storage (parallel.zero, memory.offload) of parameters,
// gradients and optimizer state, whatever the schedule and the micro-batch are.
int64_t least_bytes_of_storage(const RunPlan& plan);

// Compiles a plan without searching what "fit" computes again, or a schedule: "auto" takes 1F1B
// unless parallel.chunks is 2 or more.
Status compile_unsearched(RunPlan& plan);

// Like compile_plan, but within a limit: the buffer of checkpoint.asynchronous is left out if the
// plan does not fit with it, memory.recompute = "fit" takes the cheapest values to
// compute again, and parallel.schedule = "auto" then the fastest schedule found. `limit` 0 means no
// limit. A plan that does not fit is not an error here. If its parameters, gradients and
// optimizer state alone exceed the limit, nothing is searched.
Status compile_to_fit(RunPlan& plan, int64_t limit);

}  // namespace trireme
