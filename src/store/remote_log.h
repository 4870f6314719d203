#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "raft/command_log.h"
#include "raft/members.h"
#include "store/store_peer.h"

namespace trireme {

// The log of the metadata in a store of servers. A call goes to the server that leads, and is
// repeated until a leader has answered or the deadline has passed. So a command must have a number
// by which the metadata recognize a repeat. A leader that was not among the addresses is found too,
// because the other servers name it. If a server cannot be reached, the others are asked to pass
// the call on to the leader: a network may cut the leader off from this client alone. Any thread
// may call it.
class RemoteLog : public CommandLog {
 public:
  RemoteLog(const std::vector<std::string>& addresses, const std::string& secret, uint64_t store);

  Result<AppliedAnswer> apply(const std::string& command, Deadline deadline) override;
  Result<AppliedAnswer> query(const std::string& question, Deadline deadline) override;
  // Returns the servers that vote.
  Result<LogMembers> members(Deadline deadline);
  // Adds or removes one of them. `epoch`: the token of the maintainer.
  Status change_members(const LogMembers& members, uint64_t epoch, Deadline deadline);

 private:
  Result<AppliedAnswer> ask(StoreRequest request, Deadline deadline);
  // Returns where to go on after server `at` has not led.
  size_t next_after(size_t at, const std::string& leader);

  const std::string secret_;
  const uint64_t store_;
  std::mutex mutex_;  // guards everything below
  std::vector<std::shared_ptr<StorePeer>> peers_;
  size_t leader_ = 0;  // index of the peer to ask first
  // Until then, calls are passed on without another try to reach the leader.
  int64_t passes_on_until_ns_ = 0;
};

}  // namespace trireme
