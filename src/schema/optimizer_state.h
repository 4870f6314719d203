#pragma once

#include "schema/run_config.h"
#include "schema/stage_shape.h"

namespace trireme {

// Which moments of the gradient an optimizer keeps.
OptimizerStateSpec optimizer_state_of(const OptimConfig& optim);

}  // namespace trireme
