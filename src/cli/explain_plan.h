#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/alternatives.h"
#include "predict/predict.h"

namespace trireme {

// Explains a plan: where its time and memory go, and what alternatives would cost.
struct PlanExplanation {
  const RunPlan& plan;
  Hardware hardware;
  std::vector<Alternative> alternatives;
};

std::string explanation_text(const PlanExplanation& explanation);
nlohmann::ordered_json explanation_json(const PlanExplanation& explanation);

}  // namespace trireme
