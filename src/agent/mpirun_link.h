#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/rank_link.h"
#include "base/result.h"

namespace trireme {

// How a rank that mpirun has started finds the agent that has started mpirun: mpirun closes all
// descriptors that a rank could inherit. So the agent listens on a local socket, whose name the
// environment has, and gives a rank the descriptor of its page there.

// Names the socket in the environment of a rank.
inline constexpr const char* kAgentVariable = "TRIREME_AGENT";
// The epoch of a rank that is started, as a variable of its environment.
inline constexpr const char* kAgentEpochVariable = "TRIREME_AGENT_EPOCH";

// The first message of a rank.
struct MpirunRank {
  uint64_t epoch = 0;
  int32_t rank = 0;
  int32_t size = 0;
};

// A rank that has said its name.
struct MpirunVisitor {
  MpirunRank rank;
  int socket = -1;  // whoever takes the visitor closes it
  pid_t pid = -1;
};

// The local socket of an agent. Processes of other users are turned away.
class MpirunDoor {
 public:
  static Result<MpirunDoor> open();
  MpirunDoor(MpirunDoor&& other) noexcept;
  MpirunDoor& operator=(MpirunDoor&&) = delete;
  ~MpirunDoor();

  const std::string& name() const { return name_; }
  int fd() const { return listener_; }
  // Takes in those who have come. It does not wait.
  std::vector<MpirunVisitor> take_visitors();

 private:
  MpirunDoor(std::string name, int listener) : name_(std::move(name)), listener_(listener) {}
  std::string name_;
  int listener_;
  std::vector<MpirunVisitor> silent_;  // they have not said their name yet
};

// Gives a visitor the page of the agent. Returns false if it has left.
bool give_page(const MpirunVisitor& visitor, int page);

// The rank's side. It ends with an error if the agent is gone or does not want this rank.
Result<LinkDescriptors> join_mpirun_agent(const std::string& name, const MpirunRank& own);

// Ends this process if the agent ends, as mpirun does not.
class AgentWatch {
 public:
  // `socket` is that of the link.
  explicit AgentWatch(int socket);
  ~AgentWatch();
  AgentWatch(const AgentWatch&) = delete;
  AgentWatch& operator=(const AgentWatch&) = delete;

 private:
  int agent_ = -1;  // a pidfd; -1: there is none
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace trireme
