#pragma once

#include "spec/config_rules.h"

namespace trireme {

// Checks what the degrees of parallel.* must divide. If several rules limit one degree, the first
// broken rule is named together with the values that satisfy all of them.
void degree_rules(ConfigRules& rules, const RunConfig& config);

}  // namespace trireme
