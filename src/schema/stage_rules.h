#pragma once

#include "schema/config_rules.h"

namespace trireme {

// What parallel.stage_tp, stage_dp and stage_layers must say, and what they exclude.
void stage_rules(ConfigRules& rules, const RunConfig& config);

}  // namespace trireme
