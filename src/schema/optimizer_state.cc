#include "schema/optimizer_state.h"

namespace trireme {

OptimizerStateSpec optimizer_state_of(const OptimConfig& optim) {
  const bool is_sgd = optim.name == OptimizerKind::Sgd;
  return {.exp_avg = !is_sgd || optim.momentum != 0.0,
          .exp_avg_sq = !is_sgd,
          .moment = state_dtype(optim.moment_dtype),
          .master = optim.master,
          .muon = optim.name == OptimizerKind::Muon};
}

}  // namespace trireme
