#pragma once

#include "schema/config_rules.h"

namespace trireme {

// Checks what [optim] says: rates, Muon, QK-clip, and the dtypes of its state.
void optim_rules(ConfigRules& rules, const RunConfig& config);

}  // namespace trireme
