#pragma once

#include <cstdint>
#include <vector>

#include "goodput/failure_rates.h"

namespace trireme {

// A job as the failures see it. Hosts come in two classes, ordinary ones and lemons; of the
// ordinary ones only the number is kept, so a job of thousands of hosts costs no more than a small
// one with as many failures.
struct FailingJob {
  std::vector<JobCause> causes;
  int64_t hosts = 1;
  int64_t hosts_per_rack = 1;
  int64_t hosts_per_pod = 1;
  int64_t spares = 0;
  double repair_s = 0.0;
  double lemon_share = 0.0;
  double lemon_factor = 1.0;
  int64_t lemon_drain_after = 0;
};
FailingJob failing_job(const FailureRates& rates, int64_t devices, int64_t spares);

// A failure at a moment of the wall clock, whatever the job does then.
struct FailureEvent {
  double at_s = 0.0;
  int cause = 0;        // index in FailingJob::causes
  double wait_s = 0.0;  // until enough hosts stand by, if the spares were used up
};

// Returns all failures within `seconds`, in the order of time. They come at random (exponential
// times between them) and depend on the seed alone.
std::vector<FailureEvent> draw_failures(const FailingJob& job, double seconds, uint64_t seed);

}  // namespace trireme
