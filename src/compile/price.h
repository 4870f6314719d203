#pragma once

#include "compile/run_plan.h"
#include "schema/ceilings.h"
#include "schema/hardware.h"

namespace trireme {

// Seconds of one micro-batch and of the update if one rank held the whole model.
struct ComputeCost {
  double forward_s = 0.0;
  double backward_input_s = 0.0;   // includes recomputation
  double backward_weight_s = 0.0;  // W as the second half of BW
  double step_s = 0.0;

  // The parts of forward_s, backward_input_s and backward_weight_s.
  double matmul_s = 0.0;  // forward; the input gradient and the weight gradient take as long each
  double attention_s = 0.0;  // forward; backward takes 2.5 times as long
  double touch_s = 0.0;  // reads and writes of saved tensors and scratch, once in each of the three
  double recompute_s = 0.0;
};

// Prices each part by a roofline: matmuls and attention at their share of the compute ceiling,
// everything else by the bytes of the tables at memory bandwidth.
ComputeCost price_compute(const RunPlan& plan, const Hardware& hardware);

// Compute ceiling of the compute dtype, by which MFU is computed.
double peak_flops(const RunPlan& plan, const Hardware& hardware);

// Describes this machine from the measured compute ceilings alone. The memory bandwidth is assumed:
// 0.3 copied bytes per fp32 FLOP, a typical value for a core of a desktop or a server. `trireme
// calibrate` measures it.
Hardware assumed_hardware(const ComputeCeilings& ceilings);

}  // namespace trireme
