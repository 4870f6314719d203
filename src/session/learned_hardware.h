#pragma once

#include "predict/op_times.h"
#include "predict/predict.h"
#include "schema/hardware.h"

namespace trireme {

// The hardware of one rank for which the prediction would have been what a run has measured.
// Products, attention and the rest are scaled by what their ops took beside their prices, links by
// the time of their transfers, and the compute of no op becomes the fixed time of a step. Without
// measured ops, all prices of compute are scaled alike. `share_left` is the share of the measured
// time in which the rank had its cores (device/cpu_load.h). Parts that were not measured or not
// predicted stay as they are.
Hardware learned_hardware(const Hardware& hardware, const StepTimes& predicted,
                          const StepTimes& measured, const OpComparison& ops, double share_left);

}  // namespace trireme
