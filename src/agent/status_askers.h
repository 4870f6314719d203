#pragma once

#include <poll.h>

#include <vector>

#include "agent/agent_channel.h"
#include "agent/status_wire.h"
#include "comm/tcp/handshake.h"

namespace trireme {

// Agents let in other agents, those that give parts of checkpoints, and whoever asks how the job
// is.
Verdict judge_of_agents(const Hello& hello);

// The connections to an agent of those who ask how the job is. They can do nothing else. No
// function waits, except finish().
class StatusAskers {
 public:
  // Keeps the visitor and returns true if it has come to ask.
  bool take(Reception::Visitor& visitor);
  // Takes what has arrived. Returns true if somebody waits for an answer.
  bool receive();
  // Answers whoever waits.
  void answer(const StatusAnswer& answer);
  // Tells everybody the last answer, and waits until they have gone, or until the deadline.
  void finish(const StatusAnswer& answer, Deadline deadline);
  void add_descriptors(std::vector<pollfd>& entries) const;

 private:
  struct Asker {
    AgentChannel channel;
    bool waits = false;
  };
  std::vector<Asker> askers_;
};

}  // namespace trireme
