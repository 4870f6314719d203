#pragma once

#include <optional>
#include <string>

#include "agent/rank_link.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

// The job to which mpirun, srun or the agent of `trireme launch` says that this process belongs.
struct Launch {
  int ranks = 0;  // 0: not started by a launcher
  int rank = 0;
  int ranks_on_host = 0;
  std::optional<TcpPlace> place = {};        // only of ranks that an agent has started
  std::optional<LinkDescriptors> link = {};  // to this agent
  // The local socket of an agent that has started mpirun (join_mpirun_agent); "": none.
  std::string agent = {};
  std::optional<Error> error = {};  // the variables of the agent are wrong
  std::string memory_folder = {};   // SessionOptions::memory_folder
  std::string failure_domain = {};  // SessionOptions::failure_domain
  std::string secret = {};          // of a job on several hosts, if the user has named one
  bool is_first() const { return rank == 0; }
  // The command with which the user has started this process: the agents of `trireme launch` run
  // `trireme train` for each rank, and messages begin with the command that the user knows.
  std::string command_of_user(const std::string& command) const {
    return place ? "trireme launch" : command;
  }
};

}  // namespace trireme
