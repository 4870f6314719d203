#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/sweep_progress.h"
#include "config/config_load.h"
#include "sweep/trial_curve.h"
#include "sweep/trial_verdict.h"

namespace trireme {

// One trial of a sweep: a run of trireme train in a folder of its own.
struct TrialJob {
  const LoadedConfig& config;
  std::string folder;
  std::string resume;  // the checkpoint with which it begins; "": initial weights
  TrialRules rules;
  const std::atomic<int>& stop_signals;
  SweepProgress& progress;
};

struct TrialEnd {
  bool is_interrupted = false;  // a signal has ended it; it is saved, and can be resumed
  std::optional<TrialVerdict> verdict;
  TrialCurve curve;
};

// Trains, or resumes what is in the folder. Runs in this process: so a verdict ends the run at the
// same step every time, which no watcher of another process could promise.
Result<TrialEnd> run_trial(const TrialJob& job, CommandIo& io);

}  // namespace trireme
