#pragma once

#include "planner/run_plan.h"
#include "spec/hardware.h"

namespace trireme {

// Seconds of one micro-batch and of the update on one rank.
struct ComputeCost {
  double forward_s = 0.0;
  double backward_input_s = 0.0;
  double backward_weight_s = 0.0;
  double step_s = 0.0;
};

// A roofline of each part: matmuls and attention at their share of the compute ceiling, everything
// else at memory bandwidth by the bytes of the tables.
ComputeCost price_compute(const RunPlan& plan, const Hardware& hardware);

// Of a whole step on one rank.
double price_step(const RunPlan& plan, const Hardware& hardware);

}  // namespace trireme
