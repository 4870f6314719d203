#pragma once

#include <vector>

#include "compile/price.h"
#include "compile/run_plan.h"
#include "sim/simulate.h"

namespace trireme {

// The part of the model's work that some units of it have.
struct WorkShare {
  double matmul = 0.0;  // the head included
  double layers = 0.0;  // attention, recomputation, what is read and written
};
WorkShare share_of(const ModelSpec& model, const StageSpec& stage);
// Only the units that the action names.
WorkShare share_of(const ModelSpec& model, const StageSpec& stage, const Action& action);

// Seconds of one micro-batch, of a rank that shares its stage with tp * cp - 1 others.
StageTimes stage_times(const ComputeCost& whole, const WorkShare& share, const Mesh& mesh);

// Relative times where nobody has said what the hardware is: the same on every rank and machine.
Hardware nominal_hardware();

// Layers over stages, of about equal cost; the head counts as what it takes.
Result<std::vector<StageSpec>> split_stages(const RunPlan& plan, int num_stages);

// What the schedule of one pipeline is simulated and searched with. Needs plan.shape.
Costs pipeline_costs(const RunPlan& plan, const std::vector<StageSpec>& stages,
                     const Hardware& hardware);

}  // namespace trireme
