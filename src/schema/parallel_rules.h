#pragma once

#include "schema/config_rules.h"

namespace trireme {

// Checks what [parallel] says: degrees, their order, the schedule, the stages, and what dp ranks
// share.
// `data_vocab_size` is 0 where nobody knows it.
void parallel_rules(ConfigRules& rules, const RunConfig& config, int64_t data_vocab_size);

}  // namespace trireme
