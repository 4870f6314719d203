#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/rank_link.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

// The process of one rank, as its agent sees it.
struct RankProcess {
  enum class State {
    Starting,  // it has not joined the epoch yet
    Joined,
    Waiting,  // it has survived the end of the epoch, and waits for the next one
    Ended,
  };
  State state = State::Ended;
  pid_t pid = -1;       // -1: it has ended
  int status = 0;       // of waitpid, once it has ended
  int error_file = -1;  // its standard error; -1: that of this process
  int socket = -1;      // to its RankLink
  bool hangs = false;   // it was killed because it has not answered
  int signals = 0;      // number of signals that were passed on to it
  std::string cause;    // the last message of a rank that has failed, or has lost a peer

  bool has_finished() const;  // ended with exit code 0
  bool has_failed() const;    // ended otherwise, and was not asked to stop
  int exit_code() const;      // of a process that has ended; 5 if a signal has killed it
};

// The inputs of a new rank process.
struct RankStart {
  const std::vector<std::string>& command;
  TcpPlace place;
  int page = -1;         // descriptor of the JobPage
  const sigset_t& mask;  // signals that it blocks
};

// Starts the process. It has a process group of its own, so that Ctrl-C reaches it once, through
// its agent, and it is killed if its agent ends.
Status start_rank(RankProcess& rank, const RankStart& start);

// Gives the rank an order. The order is lost if the rank has ended.
void send_order(const RankProcess& rank, const EpochOrder& order);
// Returns the next report of the rank, if one has arrived.
std::optional<RankReport> next_report(RankProcess& rank);
// True if the process is stopped (SIGSTOP).
bool is_stopped(const RankProcess& rank);
// Kills the process and waits until it has ended, for two seconds at most: one that waits for a
// device cannot end, and is left behind. Its descriptors are closed.
void kill_rank(RankProcess& rank);
// Returns what a rank has written to its error file, up to 64 KiB.
std::string error_output_of(const RankProcess& rank);
void close_descriptors(RankProcess& rank);

}  // namespace trireme
