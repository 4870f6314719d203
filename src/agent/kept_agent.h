#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/agent_record.h"
#include "agent/job_page.h"
#include "agent/ranks_end.h"
#include "agent/taken_signals.h"
#include "base/result.h"

namespace trireme {

// One of the agents that a job on one host has, one after the other.
struct AgentLife {
  int64_t number = 1;      // of this agent, from 1
  std::string former_end;  // how the former agent has ended; "": there was none
};

// The work of an agent, in a process of its own. It adds the failures of the job to the record.
using AgentWork = std::function<Result<RanksEnd>(const AgentLife& life)>;

// The memory that a job on one host has beside its agents.
struct KeptJob {
  const AgentRecord& record;
  const JobPage& page;
  int max_restarts = 0;
};

// Does the work of an agent in a child process, and returns its result. If a signal kills the child
// once training has begun, another child does it. Before that, no process that the killed one has
// started runs any more. SIGINT, SIGTERM and SIGUSR1 are passed on to the child; after one of them,
// or after too many deaths within an hour, or several without a new step, the death of the child is
// the end of the job. If this process is killed, the child gets SIGTERM and has_lost_launcher().
// Call it from a process with one thread.
Result<RanksEnd> keep_agent(const AgentWork& work, const KeptJob& job, const TakenSignals& signals);

// In the child: true if the process `launcher`, which has started it, has ended.
bool has_lost_launcher(int launcher);

}  // namespace trireme
