#pragma once

#include "schema/config_rules.h"
#include "schema/run_config.h"

namespace trireme {

// Rules of model.lora_rank, lora_alpha and lora_targets.
void adapter_rules(ConfigRules& rules, const ModelConfig& model);

}  // namespace trireme
