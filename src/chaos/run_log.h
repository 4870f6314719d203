#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// The part of metrics.jsonl that a comparison of two runs needs.
struct RunLog {
  struct Step {
    int64_t step = 0;
    std::string loss, grad_norm;  // as they stand in the file; numbers round-trip
    std::optional<double> step_s;
    bool begins_epoch = false;
  };
  struct Restart {  // after a failure
    double time_s = 0.0;
    int64_t step = 0;  // that was resumed
    int64_t redone_steps = 0;
    std::string from, checkpoint;  // tier and name
    double detect_s = 0.0, first_step_s = 0.0;
  };
  struct Save {
    double time_s = 0.0;
    double seconds = 0.0;
    std::optional<double> stall_s;  // absent: training waited for all of it
  };
  std::vector<Step> steps;
  std::vector<Restart> restarts;
  std::vector<Save> saves;
  int64_t failures = 0;
};

// Reads the file of a run. Lines that no run writes are left out.
Result<RunLog> read_run_log(const std::string& path);

// The mean time of a step, without the first one of the run and of every restart; nullopt if there
// are none.
std::optional<double> mean_step_s(const RunLog& log);

// The last step in the file, which may be written meanwhile; 0: none. It reads only the end of the
// file.
int64_t last_step_in(const std::string& path);

}  // namespace trireme
