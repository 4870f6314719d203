#pragma once

#include <optional>
#include <string>

#include "agent/agent_wire.h"
#include "agent/rank_processes.h"
#include "base/result.h"
#include "cli/command_io.h"
#include "cli/run_config_options.h"

namespace trireme {

// `trireme launch RUN.toml ...` after parsing.
struct LaunchOptions {
  RunConfigOptions config;
  bool check = false;  // compares the hosts with each other, and exits
  bool json = false;   // with check: prints JSON
  std::string out;     // run directory; "": as for train
  std::string resume;  // "", "auto" or the folder of a checkpoint
  int64_t max_restarts = kMaxRestarts;
  std::string on_loss = "respawn";  // or "shrink"
  std::string layouts = "any";      // if ranks are missing; or "dp" or "same"
  std::string hosts;                // "a,b:2"; "": this host alone
  std::string hostfile;             // "": none
  int64_t agents = 0;               // hosts that join by themselves
  int64_t spares = 0;               // hosts without ranks at first
  std::string listen;               // HOST or HOST:PORT; "": the name of this host
  std::string ssh = "ssh -o BatchMode=yes";
  std::string mpirun = "mpirun";   // with its options, for run.backend = "mpi"
  std::string search_path;         // value of PATH, where mpirun is searched; "": not checked
  std::string coord;               // file:DIR or etcd:HOST:PORT; "": a folder in that of the run
  std::optional<int64_t> lease_s;  // of the agents; absent: kUsualLeaseS

  // One failure in 36 s. A run that fails more often does little else than to start again.
  static constexpr int64_t kMaxRestarts = 100;
};

// Starts `trireme train` once for every rank of the configuration, and keeps the run alive if ranks
// are lost. Returns the exit code of the rank whose failure has ended the run, or 130 if the run
// was stopped and has saved.
Result<int> run_launch(const LaunchOptions& options, CommandIo& io);

// How an agent names the class of a failure.
ClassifyFailure classify_by_built_in_rules();

// The layouts of a job whose launcher has told an agent its terms.
Result<JobLayouts> layouts_of(const JobTerms& terms, CommandIo& io);

// Writes the failures to metrics.jsonl that no epoch has written, if this process has led the job.
// Before the first step the folder may be that of another run.
void note_last_failures(const RanksEnd& end, const std::string& run_dir);

}  // namespace trireme
