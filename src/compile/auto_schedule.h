#pragma once

#include "compile/run_plan.h"

namespace trireme {

// parallel.schedule = "auto": the schedule of least makespan for the costs of this plan's stages,
// transfers included, with plan.max_live shares of a rank's activations alive. At least as good as
// every named one that holds parameters once, of as many chunks as configured or, where nobody
// says, of one and two. Needs plan.shape; a function of the plan alone: every rank finds the same.
Result<Schedule> auto_schedule(const RunPlan& plan);

}  // namespace trireme
