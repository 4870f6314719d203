#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// Where a job stands. Its agent writes this into the folder of the run, for `trireme status` and
// `trireme stop`.
struct JobStatus {
  struct Rank {
    int pid = -1;
    std::string state;  // starting, training, waiting or ended
  };
  int agent_pid = 0;
  uint64_t agent_start = 0;  // tells the process from a later one with the same number
  std::string host;
  std::string state;  // running, recovering or ended
  uint64_t epoch = 1;
  int64_t step = 0;
  int64_t saved_step = 0;
  double time_s = 0.0;  // Unix time of this report
  std::vector<Rank> ranks;
  std::vector<std::string> failures;  // of the job, as JSON objects
};

inline constexpr const char* kStatusFile = "agent.json";

std::string to_json(const JobStatus& status);
// When a process was started, in ticks since the machine was; 0: there is no such process.
uint64_t start_of_process(int pid);
// Replaces the file at once. A report that is lost does not matter, so the disk is not waited for.
void write_status(const std::string& path, const JobStatus& status);

}  // namespace trireme
