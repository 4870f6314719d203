#pragma once

#include <vector>

#include "compile/price.h"
#include "compile/run_plan.h"
#include "sim/simulate.h"

namespace trireme {

// The share of the model's work that belongs to some of its units.
struct WorkShare {
  double matmul = 0.0;  // includes the head
  double layers = 0.0;  // attention, recomputation, memory traffic
};
WorkShare share_of(const ModelSpec& model, const StageSpec& stage);
// Counts only the units that the action names.
WorkShare share_of(const ModelSpec& model, const StageSpec& stage, const Action& action);

// Seconds of one micro-batch on a rank that shares its stage with tp * cp - 1 other ranks.
StageTimes stage_times(const ComputeCost& whole, const WorkShare& share, const Mesh& mesh);

// Relative times for when no hardware is given. They are the same on every rank and machine.
Hardware nominal_hardware();

// Splits the layers into stages of about equal cost, the head included.
Result<std::vector<StageSpec>> split_stages(const RunPlan& plan, int num_stages);

// Costs for simulating and searching the schedule of one pipeline. Needs plan.shape.
Costs pipeline_costs(const RunPlan& plan, const std::vector<StageSpec>& stages,
                     const Hardware& hardware);

}  // namespace trireme
