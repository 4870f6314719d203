#pragma once

#include <string>

#include "base/result.h"
#include "chaos/fault.h"

namespace trireme {

// What the configuration of a job says, as far as faults depend on it.
struct JobFacts {
  bool saves_to_disk = false;    // during the run
  bool saves_to_memory = false;  // during the run
  int64_t kept = 0;              // checkpoints on disk
  bool may_move = false;         // the numbers do not depend on the hosts of the ranks
  int num_ranks = 2;
};

// Refuses kinds of faults that this machine or this job cannot have, and says what is missing.
Status check_faults(const std::vector<FaultKind>& kinds, const JobFacts& job);

// The points that ranks of such a job reach, each once. That of the end comes last.
std::vector<CrashPoint> crash_points_of(const JobFacts& job);
// Refuses points that they do not reach, and says what is missing.
Status check_points(const std::vector<CrashPoint>& points, const JobFacts& job);

}  // namespace trireme
