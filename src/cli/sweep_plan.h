#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/sweep_command.h"
#include "config/config_load.h"
#include "sweep/sweep_record.h"

namespace trireme {

// A sweep before its first trial: what it is, and the configuration of every trial.
struct SweepPlan {
  std::string folder;
  SweepRecord record;                // all trials are waiting
  std::vector<LoadedConfig> trials;  // one for each trial
  std::string note;                  // what the user should know, or ""
};

// Finds everything that is wrong with any trial: its point, its configuration, its plan and its
// data. Writes nothing.
Result<SweepPlan> plan_sweep(const SweepOptions& options, const CommandIo& io);

}  // namespace trireme
