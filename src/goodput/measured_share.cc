#include "goodput/measured_share.h"

#include <algorithm>
#include <array>

namespace trireme {

double restart_s(const MeasuredRecovery& recovery, double step_s) {
  return std::max(0.0, recovery.detect_s + recovery.first_step_s - 1.5 * step_s);
}

double predicted_share(const MeasuredJob& job, double failures_per_s) {
  const std::array<SavePolicy, 2> tiers = {job.disk, job.memory.value_or(SavePolicy{})};
  std::array<FailuresOfTier, 2> failures;
  for (const MeasuredRecovery& recovery : job.recoveries) {
    FailuresOfTier& tier = failures[recovery.is_from_memory ? 1 : 0];
    tier.per_s += 1.0;
    tier.restart_s += restart_s(recovery, job.step_s);
  }
  for (FailuresOfTier& tier : failures) {
    if (tier.per_s == 0.0) continue;
    tier.restart_s /= tier.per_s;
    tier.per_s *= failures_per_s / double(job.recoveries.size());
  }
  // Nothing is known about the cost of failures yet but the steps that are done again.
  if (job.recoveries.empty()) failures[job.memory ? 1 : 0].per_s = failures_per_s;
  return expected_share(tiers, failures);
}

}  // namespace trireme
