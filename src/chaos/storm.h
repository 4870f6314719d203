#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/taken_signals.h"
#include "base/result.h"
#include "chaos/child_job.h"
#include "chaos/cut_hosts.h"
#include "chaos/fault.h"
#include "chaos/run_log.h"
#include "chaos/small_disk.h"

namespace trireme {

// A fault that was done to a job.
struct InjectedFault {
  FaultKind kind = FaultKind::Kill;
  double time_s = 0.0;  // Unix time
  double at_s = 0.0;    // since the first step of the job
  int64_t step = 0;     // last step done
  std::string target;   // what was hit
  std::string damaged;  // folder of the checkpoint of FaultKind::Flip
  // Known after the job.
  std::string happened;
  std::optional<double> recovery_ms;  // from the fault to the next step, or to the next save
  bool was_reached = true;            // FaultKind::Point: the rank has died there
  bool survived = false;
};

struct StormJob {
  std::vector<std::string> launch;  // `launch` and its words
  std::string run_dir;              // absolute; the value of its --out
  std::string log;                  // for what it prints
  int64_t last_step = 0;            // at which it ends by itself
  int64_t save_every = 1;           // in steps, on disk
  double step_s = 0.1;              // undisturbed
  double comm_timeout_s = 60.0;
  int64_t most_faults = INT64_MAX;
};

// The parts of the machine that some kinds of faults need.
struct StormMachine {
  const SmallDisk* disk = nullptr;  // of the checkpoints
  const CutHosts* hosts = nullptr;  // on which the ranks run
};

struct StormEnd {
  int exit_code = 0;  // of the job
  bool is_interrupted = false;
  std::vector<InjectedFault> faults;
};

// Runs the job and injects faults until it has done almost all of its steps: none comes after the
// last twentieth, so that the job can still recover and end by itself. The first one comes after
// step 1. Two kills may follow each other at once; else a job must do two new steps before the next
// fault, because one that makes no progress is given up. `signals` are those of this process.
Result<StormEnd> run_storm(const StormJob& job, const FaultPlan& plan, const StormMachine& machine,
                           const TakenSignals& signals);

// Says what every fault has led to.
void tell_recoveries(const RunLog& log, bool ended_well, std::vector<InjectedFault>& faults);

}  // namespace trireme
