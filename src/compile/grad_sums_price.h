#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "schema/hardware.h"

namespace trireme {

// Returns the seconds a micro-batch in which the gradients of every stage are added to those of
// others, [stage]. Needs plan.schedule, but no other part of the pipeline.
std::vector<double> price_grad_sums(const RunPlan& plan, const std::vector<StageSpec>& stages,
                                    const Hardware& hardware);

}  // namespace trireme
