#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "agent/agent_channel.h"

namespace trireme {

// The connection of an agent to the one that leads. It is made on other threads, because a host
// that is gone answers nothing. No function waits.
class LeaderLink {
 public:
  explicit LeaderLink(std::string secret) : secret_(std::move(secret)) {}
  ~LeaderLink();  // waits for the attempts that are being made, about a second
  LeaderLink(const LeaderLink&) = delete;
  LeaderLink& operator=(const LeaderLink&) = delete;

  // Connects with this agent, if it is not connected with it already.
  void turn_to(const std::string& leader, const std::string& address);
  void drop();
  // Returns true if a connection was made since the last call.
  bool advance();
  const std::string& leader() const { return leader_; }
  AgentChannel* channel() { return channel_ ? channel_.get() : nullptr; }  // null: not connected
  void add_descriptors(std::vector<pollfd>& entries) const;
  const std::string& last_problem() const { return last_problem_; }

 private:
  struct Attempt {
    std::string address;
    std::future<Result<Socket>> socket;
  };

  std::string secret_;
  std::string leader_;
  std::string address_;
  int64_t tried_ns_ = 0;
  std::vector<Attempt> attempts_;
  std::unique_ptr<AgentChannel> channel_;
  std::string last_problem_;
};

}  // namespace trireme
