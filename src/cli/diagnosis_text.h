#pragma once

#include <span>
#include <string>

#include "planner/diagnosis.h"

namespace trireme {

// A line for each of the first findings, with the setting that would change it and its gain; "" if
// there are none.
std::string diagnosis_text(std::span<const StepFinding> findings);

}  // namespace trireme
