#pragma once

#include <optional>

#include "compile/run_plan.h"
#include "goodput/forecast.h"
#include "schema/hardware.h"

namespace trireme {

// What a forecast takes from a plan.
struct PlannedSaves {
  double step_s = 0.0;
  int64_t checkpoint_bytes = 0;  // of the whole model: weights and state of the optimizer
  double copy_s = 0.0;           // each rank copies its part beside the step
};
PlannedSaves planned_saves(const RunPlan& plan, const Hardware& hardware);

// The question that `trireme plan --failures` answers. A save on disk takes the time of the rates,
// or the bytes of a checkpoint / storage_bytes_per_s; a plan that saves beside training waits only
// for the copy. Refuses rates that say neither.
Result<GoodputQuestion> goodput_question(const RunPlan& plan, const Hardware& hardware,
                                         const FailureRates& rates, double days);

}  // namespace trireme
