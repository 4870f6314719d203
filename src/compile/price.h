#pragma once

#include "compile/run_plan.h"
#include "spec/ceilings.h"
#include "spec/hardware.h"

namespace trireme {

// Seconds of one micro-batch and of the update if one rank held the whole model.
struct ComputeCost {
  double forward_s = 0.0;
  double backward_input_s = 0.0;   // recomputation included
  double backward_weight_s = 0.0;  // as the second half of BW
  double step_s = 0.0;

  // What the three are made of.
  double matmul_s = 0.0;  // forward; as much again for the gradient of the input and the weight's
  double attention_s = 0.0;  // forward; 2.5 times as much backward
  double touch_s = 0.0;      // saved tensors and scratch, once in each of the three
  double recompute_s = 0.0;
};

// A roofline of each part: matmuls and attention at their share of the compute ceiling, everything
// else at memory bandwidth by the bytes of the tables.
ComputeCost price_compute(const RunPlan& plan, const Hardware& hardware);

// The ceiling of the compute dtype: what MFU divides by.
double peak_flops(const RunPlan& plan, const Hardware& hardware);

// This machine by what takes a moment to measure. Its memory bandwidth is assumed: 0.3 copied bytes
// per fp32 FLOP, as a core of a desktop or a server has it. `trireme calibrate` measures it.
Hardware assumed_hardware(const ComputeCeilings& ceilings);

}  // namespace trireme
