#pragma once

#include "spec/config_rules.h"

namespace trireme {

// What the degrees of parallel.* must divide. Several rules bind one degree: the first that is
// broken is named, and with it the values that keep all of them.
void degree_rules(ConfigRules& rules, const RunConfig& config);

}  // namespace trireme
