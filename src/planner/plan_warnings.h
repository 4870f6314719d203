#pragma once

#include <string>
#include <vector>

#include "compile/run_plan.h"

namespace trireme {

// Returns one line for every setting that is accepted but probably not meant: settings without
// effect, a warm-up that does not end, samples that cannot be written.
std::vector<std::string> plan_warnings(const RunPlan& plan);

}  // namespace trireme
