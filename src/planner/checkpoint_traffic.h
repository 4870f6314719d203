#pragma once

#include "compile/run_plan.h"
#include "durability/plan_storage.h"
#include "schema/hardware.h"

namespace trireme {

// What a planned run asks of the storage that keeps its checkpoints.
CheckpointTraffic checkpoint_traffic(const RunPlan& plan, const Hardware& hardware);

}  // namespace trireme
