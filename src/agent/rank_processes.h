#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

// An agent starts the same command on its host once for every rank.
struct RankProcesses {
  std::vector<std::string> command;  // program and arguments
  int ranks = 1;
  double start_timeout_s = 60.0;  // for all ranks to join
  TcpLog log = {};
};

// The end of a job says how its ranks have ended.
struct RanksEnd {
  int exit_code = 0;         // of the rank that failed first; 5 if a signal has killed it
  int first_failed = -1;     // rank; -1: none
  std::string why;           // how it ended, such as "was killed by signal 9 (Killed)"
  std::string error_output;  // its standard error, unless it is rank 0
};

// Starts the ranks, brings them together, and returns once all have ended. Only rank 0 writes to
// the standard error of this process. If this process ends, its ranks are killed. SIGINT, SIGTERM
// and SIGUSR1 are passed on to the ranks, which save and end. If a rank fails, the others end by
// themselves within some seconds, or are killed. Call it from a process with one thread.
Result<RanksEnd> run_rank_processes(const RankProcesses& processes);

}  // namespace trireme
