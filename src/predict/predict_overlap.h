#pragma once

#include "compile/run_plan.h"
#include "compile/unit_price.h"
#include "predict/collective_bytes.h"
#include "schema/hardware.h"
#include "sim/simulate_overlap.h"

namespace trireme {

// Simulates how far a rank's reductions and gathers over dp hide behind its compute. Its program
// runs with the prices of its units; each collective takes the link's latency plus its bytes over
// the bandwidth. The time of Step itself is not included.
Overlap predict_overlap(const RunPlan& plan, const RankPlan& rank, const UnitPrices& prices,
                        const Hardware& hardware, CollectiveBytes& collective_bytes);

}  // namespace trireme
