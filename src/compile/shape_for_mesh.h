#pragma once

#include "compile/run_plan.h"

namespace trireme {

// Fills in what of a plan's shape follows from its mesh and configuration.
void shape_for_mesh(RunPlan& plan);

}  // namespace trireme
