#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/restart_policy.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

// The options of an agent, which starts the same command on its host once for every rank.
struct RankProcesses {
  std::vector<std::string> command;  // program and arguments
  int ranks = 1;
  double start_timeout_s = 60.0;  // for all ranks to join
  TcpLog log = {};
  // Greatest number of failures within an hour that the job survives. If it is not 0, ranks must
  // use a RankLink (rank_link.h).
  int max_restarts = 0;
  int dp = 1;  // of the layout
  // Returns the greatest dp that needs at most `most_ranks` ranks, and the number that it needs; dp
  // is 0 if there is none. If this function is set, lost ranks are not started again.
  std::function<std::pair<int, int>(int most_ranks)> shrink = {};
  std::string host = {};  // name of this host, for reports
  // File for the JobStatus, once training has begun; "": none.
  std::string status_file = {};
};

// The result of a job, after all its ranks have ended.
struct RanksEnd {
  int exit_code = 0;                 // of the rank that failed first; 5 if a signal has killed it
  int first_failed = -1;             // rank; -1: none
  std::string why;                   // how it ended, such as "was killed by signal 9 (Killed)"
  std::string error_output;          // its standard error, unless it is rank 0
  std::string why_no_restart;        // "" if a restart was not considered
  std::vector<JobFailure> failures;  // all of the job
  int64_t told_failures = 0;         // number of those that metrics.jsonl has
};

// Starts the ranks, brings them together, and returns once all have ended. Only rank 0 writes to
// the standard error of this process. If this process ends, its ranks are killed. SIGINT, SIGTERM
// and SIGUSR1 are passed on to the ranks, which save and end.
//
// If a rank fails, the agent gathers the next epoch: ranks that have survived keep their processes,
// the lost rank is started again, and all resume from the newest checkpoint. If the RestartPolicy
// or max_restarts forbid that, the others end by themselves within some seconds, or are killed.
// Call it from a process with one thread.
Result<RanksEnd> run_rank_processes(const RankProcesses& processes);

}  // namespace trireme
