#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_lock.h"
#include "base/result.h"
#include "compile/run_plan.h"
#include "spec/hardware.h"
#include "train/observer.h"
#include "train/trainer.h"

namespace trireme {

enum class ResumeMode {
  Fresh,  // the run directory must be empty
  Auto,   // from its newest good checkpoint; afresh where there is none
  Path,   // from one checkpoint
};

// A training run from its configuration to its summary. What the machine is and what the user wants
// to see come in; the library reads no environment and prints nothing.
struct SessionOptions {
  RunConfig config;
  std::string out_dir;
  ResumeMode resume = ResumeMode::Fresh;
  std::string resume_path;                // Path only
  HostFacts host;                         // data_vocab_size is filled from the data
  std::optional<Hardware> hardware = {};  // of this machine; absent: measured for a moment
  std::vector<std::pair<std::string, std::string>> environment;  // for the reports
  const std::atomic<int>& stop_signals;
  std::vector<RunObserver*> observers;
  bool is_first_process = true;  // of those that a launcher has started: it looks after out_dir
  // Called once, when everything is ready and before step 1.
  std::function<void(const RunPlan&, const TrainPosition&)> on_ready = {};
  // Called from another thread with the cause when the run has failed and cannot return, because a
  // call of the operating system or of MPI hangs: the process must end itself. Empty: such a run
  // hangs.
  std::function<void(const Error&)> on_hang = {};
};

struct SessionResult {
  TrainEnd end = TrainEnd::Finished;
  TrainPosition position;
  double final_loss = 0.0;
  double step_s = 0.0;  // median
  double predicted_step_s = 0.0;
  std::string report_folder;    // where the run's files are; "": they are gone
  std::vector<FileLock> locks;  // of its folders, for as long as the caller writes there
};

Result<SessionResult> run_session(const SessionOptions& options);

// The plan of a configuration with its data opened for their vocabulary: `trireme plan`.
Result<RunPlan> plan_session(const RunConfig& config, HostFacts host);

}  // namespace trireme
