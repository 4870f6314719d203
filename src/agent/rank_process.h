#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/rank_link.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"
#include "watch/rank_pages.h"

namespace trireme {

// The process of one rank on this host. It is not waited for yet as long as `pid` is positive.
struct RankProcess {
  pid_t pid = -1;
  int error_file = -1;  // its standard error; -1: that of this process
  int socket = -1;      // to its RankLink
  // Shared with the HostWatch, which may read them after the end of the process.
  std::shared_ptr<SharedRankPages> pages = {};
};

// The inputs of a new rank process.
struct RankStart {
  const std::vector<std::string>& command;
  const TcpPlace& place;
  int ranks_on_host = 1;
  int page = -1;                     // descriptor of the JobPage
  const std::string& memory_folder;  // "": none
  const std::string& failure_domain;
  const sigset_t& mask;  // signals that it blocks
};

// Starts the process. It has a process group of its own, so that Ctrl-C reaches it once, through
// its agent, and it is killed if its agent ends.
Result<RankProcess> start_rank(const RankStart& start);

// Gives the rank an order. The order is lost if the rank has ended.
void send_order(const RankProcess& rank, const EpochOrder& order);
// Returns the next report of the rank, if one has arrived.
std::optional<RankReport> next_report(RankProcess& rank);
// Waits until the child process `pid` has ended. Returns false if it still runs at the deadline.
bool await_end(int pid, Deadline deadline);
// Kills the process and waits until it has ended, for two seconds at most. A process that waits for
// a device cannot end, and is left behind. Closes its descriptors.
void kill_rank(RankProcess& rank);
// Returns what a rank has written to its error file, up to 64 KiB.
std::string error_output_of(const RankProcess& rank);
void close_descriptors(RankProcess& rank);

}  // namespace trireme
