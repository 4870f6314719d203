#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "predict/collective_bytes.h"
#include "predict/layer_comm.h"
#include "sim/simulate.h"
#include "spec/hardware.h"

namespace trireme {

// What the collectives inside the layers of a stage take, once for each kind of action that the
// schedule has.
struct StageComm {
  LayerComm f, b, w, bw;

  LayerComm of(ActionKind kind) const;
};

// A simulated schedule, and what its costs were made of.
struct PricedSchedule {
  Result<Simulation> simulation;
  std::vector<StageComm> comm;  // [stage]
};

// The schedule of one pipeline with the prices of its stages, up to Step. Of the ranks only places
// and stages are read (outline_pipeline). With `layer_saved_bytes`, what F keeps of one layer,
// ranks have their peaks of it.
PricedSchedule price_schedule(const RunPlan& plan, const Hardware& hardware, CollectiveBytes& known,
                              double layer_saved_bytes = 0.0);

}  // namespace trireme
