#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compile/run_plan.h"
#include "schema/hardware.h"

namespace trireme {

// Lines that say how the collectives over each axis were priced.
std::string collectives_text(const RunPlan& plan, const Hardware& hardware);
// Returns the same as an array, for the key "collectives".
nlohmann::ordered_json collectives_json(const RunPlan& plan, const Hardware& hardware);

}  // namespace trireme
