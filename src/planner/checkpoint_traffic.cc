#include "planner/checkpoint_traffic.h"

#include <algorithm>

#include "planner/checkpoint_bytes.h"
#include "predict/predict.h"

namespace trireme {

CheckpointTraffic checkpoint_traffic(const RunPlan& plan, const Hardware& hardware) {
  const CheckpointBytes bytes = checkpoint_bytes(plan);
  const double step_s = predicted_step_s(plan, hardware);
  // A run that chooses its interval itself has none that is configured.
  const auto steps = double(std::max<int64_t>(0, plan.config.checkpoint.every));
  return {.ranks = plan.num_ranks(),
          .save_bytes = double(bytes.saved),
          .restore_bytes = double(bytes.restored),
          .step_s = step_s,
          .interval_s = steps * step_s};
}

}  // namespace trireme
