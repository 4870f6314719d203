#pragma once

#include "base/result.h"
#include "comm/world.h"
#include "compile/run_plan.h"

namespace trireme {

// Checks that all processes compiled the same plan. Plans differ if a file or the free memory
// differs between hosts (run.hardware, for example, decides what "auto" finds), and then the
// programs do not fit together. All ranks call it, and a Usage error is returned on all of them.
Status agree_on_plan(World& world, const RunPlan& plan);

}  // namespace trireme
