#pragma once

#include "schema/config_rules.h"

namespace trireme {

// What [memory], [precision], [checkpoint], [run] and [trace] must say.
void run_rules(ConfigRules& rules, const RunConfig& config);

}  // namespace trireme
