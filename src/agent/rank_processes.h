#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/epoch_layout.h"
#include "agent/host_list.h"
#include "agent/job_page.h"
#include "agent/ranks_end.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

inline constexpr double kUsualLeaseS = 3.0;

// The hosts of a job that does not run on this host alone.
struct OtherHosts {
  std::vector<NamedHost> named;    // "localhost" is this host
  int agents = 0;                  // so many hosts join by themselves (`trireme agent`)
  int spares = 0;                  // so many hosts have no ranks at first
  std::string listen;              // HOST or HOST:PORT at which the others reach this process
  std::vector<std::string> shell;  // command that runs its last words on the host after it
  std::vector<std::string> agent;  // command of an agent, without the leader's address
  std::string secret;              // "": a fresh one
  std::string folder;              // in which ranks run on every host
  std::string run_dir;             // of the run, as seen from this folder
  std::string coord;               // file:DIR or etcd:HOST:PORT
  std::string coord_keys;          // keeps the keys of different jobs in one etcd apart
  double lease_s = kUsualLeaseS;   // of the agents
  std::string layouts;             // which layouts the job may take later, for other agents

  bool any() const { return !named.empty() || agents > 0; }
};

// The layout that a job takes with at most a given number of ranks.
struct FittingLayout {
  std::optional<EpochLayout> layout;  // nullopt: none fits
  std::string note;                   // why none fits, or what users should know about it
};
// Returns the layout for at most `most_ranks` ranks, or nullopt while it is still looked for. It
// does not wait. The page may have what was measured of the machine.
using FindLayout = std::function<std::optional<FittingLayout>(int most_ranks, const JobPage& page)>;
struct JobLayouts {
  EpochLayout first;  // of the first epoch
  FindLayout fitting;
};

// The options of a job, whose leader starts the same command once for every rank.
struct RankProcesses {
  std::vector<std::string> command;  // program and arguments
  int ranks = 1;
  double start_timeout_s = 60.0;  // for all agents to join, and for all ranks
  TcpLog log = {};                // what a user should look at
  TcpLog note = {};               // what a user may want to know, in a run that is well
  // Greatest number of failures within an hour that the job survives. If it is not 0, ranks must
  // use a RankLink (rank_link.h).
  int max_restarts = 0;
  EpochLayout layout = {};         // of the first epoch
  FindLayout fitting = {};         // needed if max_restarts is not 0
  bool leaves_lost_out = false;    // lost ranks are not started again
  bool skips_bad_batches = false;  // run.skip_bad_batches
  std::string host = {};           // name of this host
  // File for the JobStatus, once training has begun; "": none.
  std::string status_file = {};
  OtherHosts others = {};
  // The command mpirun with its options, if MPI brings the ranks together (MpirunHost); empty: the
  // ranks use the transport tcp.
  std::vector<std::string> mpirun = {};
  bool keeps_memory_folder = false;  // for the checkpoints of the ranks, on every host
  ClassifyFailure classify = {};
  // The process that starts another agent if this one is killed (keep_agent); 0: none does.
  int launcher_pid = 0;
};

// Starts the ranks on the hosts, brings them together, and returns once all have ended. Only rank 0
// writes to the standard error of this process. If this process ends, its ranks are killed. SIGINT,
// SIGTERM and SIGUSR1 are passed on to the ranks, which save and end. On one host, the agent of the
// ranks is a child of this process, which starts another one if it is killed.
//
// If a rank or a host fails, the next epoch is gathered: ranks that have survived keep their
// processes, lost ranks are started again where a host has room, else the layout shrinks, and all
// resume from the newest checkpoint. If the RestartPolicy or max_restarts forbid that, the others
// end by themselves within some seconds, or are killed. Call it from a process with one thread.
Result<RanksEnd> run_rank_processes(const RankProcesses& processes);

// A host that should be drained is named in the name of a file beside the status file: this text
// and its name.
inline constexpr const char* kDrainFile = "drain.";
// A file of this name there asks the job to save and end.
inline constexpr const char* kStopFile = "stop";

}  // namespace trireme
