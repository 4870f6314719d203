#pragma once

#include <string>
#include <vector>

#include "compile/run_plan.h"

namespace trireme {

// What the run takes, but not as its configuration may have meant it: settings without an effect, a
// warm-up that does not end, samples that nobody can write. A line each.
std::vector<std::string> plan_warnings(const RunPlan& plan);

}  // namespace trireme
