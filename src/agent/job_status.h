#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// The state of a job. Its agent writes it into the folder of the run, for `trireme status` and
// `trireme stop`.
struct JobStatus {
  struct Host {
    std::string name;
    std::string state;  // in use, spare, drained or gone
    int slots = 0;      // for ranks
  };
  struct Rank {
    std::string host = {};
    int pid = -1;
    std::string state;  // starting, training, waiting or ended
    double slow = 0.0;  // its compute time by that of others; 0: it is not slow
  };
  int agent_pid = 0;
  uint64_t agent_start = 0;  // distinguishes the process from a later one with the same pid
  int launcher_pid = 0;      // starts another agent if this one is killed; 0: none does
  uint64_t launcher_start = 0;
  std::string host;   // of the agent
  std::string state;  // running, recovering or ended
  uint64_t epoch = 1;
  int64_t step = 0;
  int64_t saved_step = 0;
  int64_t memory_step = 0;    // of the newest checkpoint in memory, if memory_redone is above 0
  int64_t memory_redone = 0;  // steps that a loss repeats at worst with those in memory
  double time_s = 0.0;        // Unix time of this report
  std::vector<Host> hosts;
  std::vector<Rank> ranks;
  int exit_code = 0;                  // once it has ended
  std::string end;                    // how it has ended; "": it has not
  std::vector<std::string> failures;  // the last ones of the job, as JSON objects
};

inline constexpr const char* kStatusFile = "agent.json";
inline constexpr int64_t kMostStatusBytes = int64_t{1} << 20;  // of its text

// The status as JSON with its checksum (sealed_json.h).
std::string text_of(const JobStatus& status);
// Replaces the file in one step (rename). It does not wait for the disk and ignores failures,
// because the next report replaces this one.
void write_status(const std::string& path, const std::string& text);

}  // namespace trireme
