#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "planner/diagnosis.h"

namespace trireme {

// The key "diagnosis" of `trireme plan --json` and of summary.json, which pages show, too.
nlohmann::ordered_json diagnosis_json(std::span<const StepFinding> findings);

}  // namespace trireme
