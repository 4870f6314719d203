#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// `trireme agent` after parsing.
struct AgentOptions {
  std::string leader;  // HOST:PORT
  std::string listen;  // HOST or HOST:PORT; "": the interface by which it reaches the leader
  std::string name;    // of this host in the job; "": its host name
  std::string domain;  // failure domain of this host; "": as the launcher says
  int64_t slots = 0;   // for ranks; 0: the launcher decides
  int64_t wait_s = 60;
};

// Runs ranks of a job on this host, until its launcher needs the host no more.
Result<int> run_agent(const AgentOptions& options, CommandIo& io);

}  // namespace trireme
