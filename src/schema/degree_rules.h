#pragma once

#include "schema/config_rules.h"

namespace trireme {

// What the degrees of parallel.* must divide. Several rules bind one degree: the first that is
// broken is named, and with it the values that keep all of them. They are rules of the model with
// its defaults filled in; `data_vocab_size` is 0 where nobody knows it.
void degree_rules(ConfigRules& rules, const RunConfig& config, int64_t data_vocab_size);

}  // namespace trireme
