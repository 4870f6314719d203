#pragma once

#include "compile/run_plan.h"

namespace trireme {

// What is compared with a limit: the largest rank where the configuration limits ranks, all of them
// where they share what the hosts have.
int64_t bytes_to_fit(const RunPlan& plan);

// compile_plan; with parallel.schedule = "auto" and a limit, the fastest schedule found whose plan
// keeps it. 0: no limit. A plan that does not fit is no error here.
Status compile_to_fit(RunPlan& plan, int64_t limit);

}  // namespace trireme
