#pragma once

#include "base/result.h"
#include "spec/run_config.h"
#include "spec/stage_shape.h"

namespace trireme {

enum class OptimizerKind { AdamW, Sgd };
Result<OptimizerKind> optimizer_kind(const OptimConfig& optim);
OptimizerStateSpec optimizer_state_of(const OptimConfig& optim, OptimizerKind kind);

}  // namespace trireme
