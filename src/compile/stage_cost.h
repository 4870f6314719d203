#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "compile/unit_price.h"
#include "sim/simulate.h"

namespace trireme {

// Seconds of F, B and W of a stage or of some of its units, without transfers.
StageTimes stage_times(const ComputeTimes& times);

// Relative times for when no hardware is given. They are the same on every rank and machine.
Hardware nominal_hardware();

// Returns how many lanes the ranks of each stage have, [stage]. Needs plan.schedule.
std::vector<int> lanes_of_stages(const RunPlan& plan);

// Splits the layers into stages of about equal cost, the head included. The last stage has no layer
// if the head and modules of multi-token prediction cost so much. The split does not depend on the
// degrees of tp, cp and ep unless places differ. A stage whose ranks have several lanes costs
// several times as much, and one that more tp ranks share costs less.
Result<std::vector<StageSpec>> split_stages(const RunPlan& plan, int num_stages);

// Costs for simulating and searching the schedule of one pipeline. Needs plan.shape. `prices` are
// those of the plan's units.
Costs pipeline_costs(const RunPlan& plan, const PlanPrices& prices,
                     const std::vector<StageSpec>& stages, const Hardware& hardware);

// Makes of costs of one micro-batch those of an action of the schedule, which stands for one action
// of every lane of a rank. Needs plan.schedule.
void price_lanes(const RunPlan& plan, Costs& costs);

}  // namespace trireme
