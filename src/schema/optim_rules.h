#pragma once

#include "schema/config_rules.h"

namespace trireme {

// What [optim] must say: rates, Muon and QK-clip, and the dtypes of its state.
void optim_rules(ConfigRules& rules, const RunConfig& config);

}  // namespace trireme
