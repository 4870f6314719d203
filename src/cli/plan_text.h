#pragma once

#include <string>

#include "base/input_file.h"
#include "compile/run_plan.h"

// The text about a plan that is printed before it runs.
namespace trireme {

// Describes the plan as text: parameters, FLOPs, batch, memory by class. If the lengths of
// documents are unknown, it tries to read the data again, with `open_input`, to say why.
std::string describe_plan(const RunPlan& plan, const OpenInput& open_input);

// Returns a line for each device of a mixed cluster, with the ranks that have it; else "".
std::string device_lines(const RunPlan& plan, const Hardware& hardware);

// Returns the line with the predicted time of a step.
std::string priced_line(const RunPlan& plan, const Hardware& hardware);

// Returns one line "warning: ..." for each of plan_warnings.
std::string warning_lines(const RunPlan& plan);

}  // namespace trireme
