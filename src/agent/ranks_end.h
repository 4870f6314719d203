#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/restart_policy.h"

namespace trireme {

// The result of a job, after all its ranks have ended.
struct RanksEnd {
  int exit_code = 0;                 // of the rank that failed first; 5 if a signal has killed it
  int first_failed = -1;             // rank; -1: none
  std::string why;                   // how it ended, such as "was killed by signal 9 (Killed)"
  std::string error_output;          // its standard error, unless it is rank 0
  std::string why_no_restart;        // "" if a restart was not considered
  std::vector<JobFailure> failures;  // all of the job
  int64_t told_failures = 0;         // number of those that metrics.jsonl has
  bool is_told_here = true;          // this process has led the job when it ended
  std::string run_dir;               // of the job, as this process sees it
};

}  // namespace trireme
