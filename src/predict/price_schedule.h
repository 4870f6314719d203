#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "compile/unit_price.h"
#include "predict/collective_bytes.h"
#include "predict/layer_comm.h"
#include "schema/hardware.h"
#include "sim/simulate.h"

namespace trireme {

// Seconds of the collectives inside the layers of a stage, for each kind of action in the schedule.
struct StageComm {
  LayerComm f, b, w, bw;
  LayerComm hidden;  // of an F of this stage and the BW beside it: what both hide of their own

  // Returns what nothing hides. If two actions run beside each other, what both hide is subtracted
  // from the F.
  LayerComm of(const Action& action) const;
};

// A simulated schedule and the prices that it was simulated with.
struct PricedSchedule {
  Result<Simulation> simulation;
  std::vector<StageComm> comm;  // [stage]
  Costs costs;
};

// Simulates the schedule of one pipeline with the prices of its stages, up to Step. Reads only the
// places and stages of the ranks (outline_pipeline). `layer_saved_bytes` is what F saves of one
// layer; the simulated peaks of the ranks are computed from it. `prices` are those of the plan's
// units.
PricedSchedule price_schedule(const RunPlan& plan, const PlanPrices& prices,
                              const Hardware& hardware, CollectiveBytes& collective_bytes,
                              double layer_saved_bytes = 0.0);

}  // namespace trireme
