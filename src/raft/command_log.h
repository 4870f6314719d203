#pragma once

#include <string>

#include "base/result.h"
#include "comm/tcp/socket.h"

namespace trireme {

struct AppliedAnswer {
  bool is_leader = true;  // false: this server did nothing, because another one leads
  std::string leader;     // address of the server that leads, empty if it is not known
  std::string bytes;      // what the state machine answered
};

// The ordered log of the commands of a StateMachine. It lies on the disk of one server or is
// replicated on several. Any thread may call it.
class CommandLog {
 public:
  virtual ~CommandLog() = default;
  // Returns once the command is on the disks that make it durable and has been applied. After an
  // error, which may be the deadline, the command may have taken effect or may take effect later.
  // So a caller that repeats a command makes it recognizable, for example by a number of its own.
  virtual Result<AppliedAnswer> apply(const std::string& command, Deadline deadline) = 0;
  // Answers a question from a state that has every command whose apply() returned before this call.
  virtual Result<AppliedAnswer> query(const std::string& question, Deadline deadline) = 0;
};

}  // namespace trireme
