#pragma once

#include <cstdint>

#include "schema/config_rules.h"

namespace trireme {

// The rules of [model], whatever its vocabulary is.
void model_rules(ConfigRules& rules, const ModelConfig& model);

// The rules of a model whose data has a vocabulary of so many tokens, 0 if there is none.
void vocabulary_rules(ConfigRules& rules, const ModelConfig& model, int64_t data_vocab_size);

}  // namespace trireme
