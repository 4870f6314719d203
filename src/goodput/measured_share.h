#pragma once

#include <optional>
#include <vector>

#include "goodput/expected_share.h"

namespace trireme {

// A failure that a run has survived.
struct MeasuredRecovery {
  double detect_s = 0.0;      // from the last step done before it to its detection
  double first_step_s = 0.0;  // from the detection to the end of the next step
  bool is_from_memory = false;
};

// What a run has measured, as far as a prediction of its effective share needs it.
struct MeasuredJob {
  double step_s = 0.0;
  SavePolicy disk;
  std::optional<SavePolicy> memory;  // absent: checkpoints are on disk only
  std::vector<MeasuredRecovery> recoveries;
};

// The time that a recovery takes by itself. The times of the run count from the end of a step to
// the end of a step. On average half a step was lost with the failure, and the last one is
// training.
double restart_s(const MeasuredRecovery& recovery, double step_s);

// expected_share() of the job if it fails `failures_per_s` times a second, and each failure costs
// what those that it has survived have cost.
double predicted_share(const MeasuredJob& job, double failures_per_s);

}  // namespace trireme
