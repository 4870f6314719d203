#include "schema/optimizer_state.h"

namespace trireme {

OptimizerStateSpec optimizer_state_of(const OptimConfig& optim) {
  const bool is_adamw = optim.name == OptimizerKind::AdamW;
  return {.exp_avg = is_adamw || optim.momentum != 0.0,
          .exp_avg_sq = is_adamw,
          .moment = state_dtype(optim.moment_dtype),
          .master = optim.master};
}

}  // namespace trireme
