#pragma once

#include "compile/run_plan.h"
#include "predict/collective_bytes.h"
#include "schema/hardware.h"

namespace trireme {

// Seconds in which a rank adds gradients with a rank of another place of the pipeline at the end of
// a step: those of the two uses of a tied table, and those of the two directions of DualPipe.
// Copies of a tied table that share this sum then gather its pieces. Nothing runs beside it.
double price_joins(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware,
                   CollectiveBytes& collective_bytes);

}  // namespace trireme
