#include "schema/optimizer_state.h"

namespace trireme {

OptimizerStateSpec optimizer_state_of(const OptimConfig& optim) {
  if (optim.name == OptimizerKind::AdamW) return {true, true};
  return {optim.momentum != 0.0, false};
}

}  // namespace trireme
