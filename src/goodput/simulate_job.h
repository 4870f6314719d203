#pragma once

#include <optional>
#include <span>
#include <vector>

#include "goodput/draw_failures.h"
#include "goodput/expected_share.h"

namespace trireme {

// How a job saves, and from which checkpoint it resumes.
struct JobPolicy {
  SavePolicy disk;
  std::optional<SavePolicy> memory;  // absent: checkpoints are on disk only
  FailureDomain memory_survives = FailureDomain::Host;
  double restart_factor = 1.0;  // on the restart time of every cause

  bool resumes_from_memory(FailureDomain lost) const {
    return memory.has_value() && lost <= memory_survives;
  }
};

// Where the time of a job went, in seconds. useful_s, saving_s and the sums over the causes add up
// to the whole time.
struct JobTime {
  double useful_s = 0.0;         // training that was never done again
  double saving_s = 0.0;         // training waited for a save
  std::vector<double> down_s;    // [cause] from a failure to the next step
  std::vector<double> redone_s;  // [cause] training that was lost
  std::vector<int> failures;     // [cause]

  double lost_s(size_t cause) const { return down_s[cause] + redone_s[cause]; }
};

// Runs a job through its failures. The cost of an event does not depend on the number of saves.
JobTime simulate_job(std::span<const FailureEvent> failures, std::span<const JobCause> causes,
                     const JobPolicy& policy, double seconds);

}  // namespace trireme
