#pragma once

#include "schema/run_config.h"
#include "schema/stage_shape.h"

namespace trireme {

// What an optimizer keeps of every parameter, and in which dtype.
OptimizerStateSpec optimizer_state_of(const OptimConfig& optim);

}  // namespace trireme
