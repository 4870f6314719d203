#pragma once

#include "compile/run_plan.h"
#include "compile/unit_price.h"
#include "sim/simulate_offload.h"

namespace trireme {

// How long a rank reads and writes the file of memory.offload in a step, how long it waits for it,
// and how much longer its compute takes beside it: its program, with the bytes of each action at
// the speeds of Hardware. Nothing where there is no file, or where its speed is unknown.
OffloadTimes predict_offload(const RunPlan& plan, const RankPlan& rank, const UnitPrices& prices,
                             const Hardware& hardware);

}  // namespace trireme
