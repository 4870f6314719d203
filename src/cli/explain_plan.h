#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compile/price.h"
#include "planner/alternatives.h"
#include "predict/predict.h"

namespace trireme {

// Why a plan is what it is: where its time and its memory go, and what other ways would cost.
struct PlanExplanation {
  const RunPlan& plan;
  Hardware hardware;
  std::vector<Alternative> alternatives;
};

std::string explanation_text(const PlanExplanation& explanation);
nlohmann::ordered_json explanation_json(const PlanExplanation& explanation);

}  // namespace trireme
