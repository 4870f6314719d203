#pragma once

#include "base/result.h"
#include "comm/world.h"
#include "compile/run_plan.h"

namespace trireme {

// Every process compiles its own plan: where a file differs between hosts (run.hardware decides
// what "auto" finds), the programs do not belong together. All ranks call it; Usage on all of them.
Status agree_on_plan(World& world, const RunPlan& plan);

}  // namespace trireme
