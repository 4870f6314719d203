#pragma once

#include "predict/predict.h"
#include "schema/hardware.h"

namespace trireme {

// The hardware of one rank for which the prediction would have been what a run has measured: every
// price of compute is scaled by the measured / the predicted compute, and every link by the
// measured / the predicted time of its transfers. `share_left` is the share of the measured time in
// which the rank had its cores (device/cpu_load.h). Parts that were not measured or not predicted
// stay as they are.
Hardware learned_hardware(const Hardware& hardware, const StepTimes& predicted,
                          const StepTimes& measured, double share_left);

}  // namespace trireme
