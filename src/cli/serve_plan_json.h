#pragma once

#include <string>

#include "serving/plan_serving.h"
#include "serving/simulate_serving.h"

namespace trireme {

// The answer of `trireme serve-plan --json`; docs/serving_plan.md has its keys.
std::string serve_plan_json(const ServedPipeline& pipeline, const Tiers& tiers,
                            const ServingAnswer& answer, const ServingTrialResult& trial,
                            double search_s);

}  // namespace trireme
