#pragma once

#include <memory>
#include <string>

#include "agent/agent_channel.h"
#include "agent/status_wire.h"

namespace trireme {

// A job on several hosts that is asked how it is, at the address of any of its agents. The
// connection is kept between two questions.
class AskedJob {
 public:
  AskedJob(std::string address, std::string secret)
      : address_(std::move(address)), secret_(std::move(secret)), asked_(address_) {}

  // Returns the status that the leading agent has written last (text_of(JobStatus)). An agent that
  // does not lead names the one that does, which is asked then. Waits at most `patience_s` for an
  // agent to lead, and a few seconds for each answer.
  Result<std::string> status(double patience_s);

 private:
  Status connect(Deadline deadline);
  Result<StatusAnswer> ask(Deadline deadline);
  void turn_to(const std::string& address);

  std::string address_;  // that the user has given
  std::string secret_;
  std::string asked_;  // the agent that is asked now
  std::unique_ptr<AgentChannel> channel_;
};

}  // namespace trireme
