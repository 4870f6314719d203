#pragma once

#include <vector>

#include "compile/run_plan.h"

namespace trireme {

// Cuts the model into stages: as plan.layers_of_stage states, or into stages of about equal cost.
Result<std::vector<StageSpec>> plan_stages(const RunPlan& plan, int num_stages);

}  // namespace trireme
