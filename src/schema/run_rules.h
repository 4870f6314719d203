#pragma once

#include "schema/config_rules.h"

namespace trireme {

// Checks what [memory], [precision], [checkpoint], [run] and [trace] say.
void run_rules(ConfigRules& rules, const RunConfig& config);

}  // namespace trireme
