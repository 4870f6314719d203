#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/rank_link.h"
#include "base/file_lock.h"
#include "base/input_file.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"
#include "compile/run_plan.h"
#include "schema/hardware.h"
#include "train/observer.h"
#include "train/trainer.h"

namespace trireme {

enum class ResumeMode {
  Fresh,  // start afresh; the run directory must be empty
  Auto,   // resume from the newest intact checkpoint, or start afresh
  Path,   // resume from the named checkpoint
};

// A training run from its configuration to its summary. The caller passes in the facts about the
// machine and receives messages through callbacks; the library reads no environment and prints
// nothing.
struct SessionOptions {
  RunConfig config;
  std::string out_dir;
  ResumeMode resume = ResumeMode::Fresh;
  std::string resume_path;                // only for ResumeMode::Path
  HostFacts host;                         // its data_vocab_size is filled in from the data
  std::optional<Hardware> hardware = {};  // of this machine; absent: measured briefly
  std::vector<std::pair<std::string, std::string>> environment;  // written to the reports
  const std::atomic<int>& stop_signals;
  std::vector<RunObserver*> observers;
  bool is_first_process = true;  // of the processes of one launcher; it checks and locks out_dir
  std::optional<TcpPlace> place = {};  // of a rank that an agent has started (run.backend = "tcp")
  // The link to an agent that can start another epoch after a failure; null: there is none. With
  // it, the session ends only if the run is over, if this rank itself has failed, or if the agent
  // wants it to end.
  const RankLink* link = nullptr;
  // A folder in the host's memory for the checkpoints of checkpoint.memory_every, which outlives
  // the ranks; "": there is none.
  std::string memory_folder = {};
  std::string failure_domain = {};       // of the host (MemoryPlace)
  std::optional<EpochOrder> order = {};  // of a later epoch than the first
  int64_t before_step = INT64_MAX;       // ResumeMode::Auto takes an earlier one from disk
  // Opens token files that are not on this machine, such as store://NAME/PATH; empty: none can be.
  OpenInput open_input = {};
  // Called when everything is ready, before the first step of every epoch.
  std::function<void(const RunPlan&, const TrainPosition&)> on_ready = {};
  // Called from another thread with the cause if the run has failed and cannot return, because a
  // call of the operating system or of MPI hangs. The callback must end the process. If it is
  // empty, such a run hangs.
  std::function<void(const Error&)> on_hang = {};
  // Memory that is prepared, and measurements of the machine, for longer than this are messages.
  double told_after_s = 0.5;
};

struct SessionResult {
  TrainEnd end = TrainEnd::Finished;
  TrainPosition position;
  double final_loss = 0.0;
  double step_s = 0.0;  // median
  double predicted_step_s = 0.0;
  // Share of the cores that other processes took during the run, and the share of its time in which
  // the run could have its threads at work.
  double taken_by_others = 0.0;
  double share_left = 1.0;
  SaveCounts saves;
  bool is_first = true;         // this process has written the files of the run
  std::string report_folder;    // folder of the run's reports; "" if it is lost
  std::vector<FileLock> locks;  // locks on its folders; keep them while writing there
};

// Gives a rank its place in a later epoch than the first, and lets it resume from what the job has
// saved.
void take_order(const EpochOrder& order, SessionOptions& options);

Result<SessionResult> run_session(const SessionOptions& options);

// Returns the plan of a configuration for `trireme plan`. Opens the data to find the vocabulary
// size.
Result<RunPlan> plan_session(const RunConfig& config, HostFacts host,
                             const OpenInput& open_input = {});

// Does the same for a command that runs the plan. It refuses a model that is only priced
// (check_runnable), before it says that the model needs too much memory.
Result<RunPlan> plan_run(const RunConfig& config, const HostFacts& host,
                         const OpenInput& open_input = {});

}  // namespace trireme
