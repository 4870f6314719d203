#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "raft/command_log.h"
#include "store/store_peer.h"

namespace trireme {

// The log of the metadata in a store of servers. A call goes to the server that leads, and is
// repeated until a leader has answered or the deadline has passed. So a command must have a number
// by which the metadata recognize a repeat. Any thread may call it.
class RemoteLog : public CommandLog {
 public:
  RemoteLog(const std::vector<std::string>& addresses, const std::string& secret, uint64_t store);

  Result<AppliedAnswer> apply(const std::string& command, Deadline deadline) override;
  Result<AppliedAnswer> query(const std::string& question, Deadline deadline) override;

 private:
  Result<AppliedAnswer> ask(StoreOp op, const std::string& text, Deadline deadline);

  const uint64_t store_;
  std::vector<std::shared_ptr<StorePeer>> peers_;
  std::mutex mutex_;
  size_t leader_ = 0;  // index of the peer to ask first; guarded by mutex_
};

}  // namespace trireme
