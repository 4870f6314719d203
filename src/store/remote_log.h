#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "raft/command_log.h"
#include "store/store_peer.h"

namespace trireme {

// The log of the metadata as its servers keep it. A call goes to the server that leads, and is
// repeated until one has answered or the deadline is over. So a command must have a number by which
// the metadata recognize it. Any thread may call it.
class RemoteLog : public CommandLog {
 public:
  RemoteLog(const std::vector<std::string>& addresses, const std::string& secret, uint64_t store);

  Result<CommandAnswer> apply(const std::string& command, Deadline deadline) override;
  Result<CommandAnswer> query(const std::string& question, Deadline deadline) override;

 private:
  Result<CommandAnswer> ask(StoreOp op, const std::string& text, Deadline deadline);

  const uint64_t store_;
  std::vector<std::shared_ptr<StorePeer>> peers_;
  std::mutex mutex_;
  size_t leader_ = 0;  // the one to ask first; guarded by mutex_
};

}  // namespace trireme
