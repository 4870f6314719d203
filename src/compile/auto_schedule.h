#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Finds the schedule for parallel.schedule = "auto": the one with the shortest makespan for the
// costs of this plan's stages, transfers included, with at most plan.max_live micro-batches alive
// on a rank. It is never slower than a named schedule that holds parameters once and has the
// configured number of chunks (one or two chunks if the number is not configured). Needs
// plan.shape. The result depends only on the plan, so every rank finds the same schedule.
Result<Schedule> auto_schedule(const RunPlan& plan);

}  // namespace trireme
