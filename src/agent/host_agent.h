#pragma once

#include <string>

#include "base/result.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

// The options of an agent, which runs ranks on its host for the leader of a job.
struct HostAgentOptions {
  std::string leader;        // HOST:PORT
  std::string secret;        // of the job
  std::string name;          // of this host in the job
  int slots = 0;             // for ranks; 0: the leader decides
  double patience_s = 60.0;  // how long it tries to reach the leader, also after losing it
  TcpLog log = {};
};

// Joins the job and runs the ranks that its leader orders, until the leader needs this host no
// more. If the leader does not answer for kAgentLeaseS, the ranks are killed and the agent joins
// again. The first SIGINT or SIGTERM asks the leader to drain this host; the second one ends the
// ranks at once. Returns an error if the leader cannot be reached.
Status run_host_agent(const HostAgentOptions& options);

}  // namespace trireme
