#pragma once

#include "compile/price.h"
#include "compile/run_plan.h"
#include "predict/collective_bytes.h"
#include "sim/simulate_overlap.h"
#include "spec/hardware.h"

namespace trireme {

// How far a rank's reductions and gathers over dp hide behind its compute: its program with the
// prices of its units, each collective at the link's latency and bandwidth for the bytes that it
// sends. Step's own time is not in it.
Overlap predict_overlap(const RunPlan& plan, const RankPlan& rank, const ComputeCost& whole,
                        const Hardware& hardware, CollectiveBytes& known);

}  // namespace trireme
