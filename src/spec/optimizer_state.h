#pragma once

#include "spec/run_config.h"
#include "spec/stage_shape.h"

namespace trireme {

// Which moments of the gradient an optimizer keeps.
OptimizerStateSpec optimizer_state_of(const OptimConfig& optim);

}  // namespace trireme
