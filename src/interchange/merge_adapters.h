#pragma once

#include "interchange/weights.h"
#include "schema/run_config.h"

namespace trireme {

// The model without its adapters (model.lora_rank): every adapted matrix W becomes
// W + lora_scale B A, summed in fp64 and rounded once.
Weights merge_adapters(const Weights& adapted);

// The model without its adapters, as it was before they were trained.
Weights without_adapters(const Weights& adapted);

// The configuration of a model without adapters.
ModelConfig without_adapters(ModelConfig config);

}  // namespace trireme
