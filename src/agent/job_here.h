#pragma once

#include <string>

#include "agent/job_page.h"
#include "agent/rank_processes.h"
#include "agent/ranks_end.h"
#include "agent/taken_signals.h"

namespace trireme {

// Runs a job all of whose ranks are processes of this host, so nobody else has to agree. Its agent
// is a child process, and another one takes its place if it is killed (keep_agent). The page and
// the folder in memory, which may have no path, outlive the agents.
Result<RanksEnd> run_job_here(const RankProcesses& processes, const std::string& secret,
                              const TakenSignals& signals, SharedJobPage& page,
                              const std::string& memory_folder);

}  // namespace trireme
