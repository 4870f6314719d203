#pragma once

#include <poll.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/agent_wire.h"
#include "comm/tcp/socket.h"

namespace trireme {

// The connection between two agents. No function waits: bytes that do not fit into the
// socket are kept and sent by later calls.
class AgentChannel {
 public:
  explicit AgentChannel(Socket socket);

  struct Received {
    AgentMessage head;
    std::vector<std::byte> body;
    std::string text() const { return {reinterpret_cast<const char*>(body.data()), body.size()}; }
  };

  // Stamps the message with the time and sends it.
  void send(AgentMessage message, std::span<const std::byte> body = {});
  void send(AgentMessage message, const std::string& body) {
    send(message, std::as_bytes(std::span(body)));
  }
  // Sends what is left.
  void flush();
  // Returns the next message that has arrived whole.
  std::optional<Received> next();
  // No message will come: the other side has left, or has sent nonsense. Messages that had arrived
  // before were returned by next().
  bool is_broken() const { return !why_broken_.empty(); }
  const std::string& why_broken() const { return why_broken_; }
  void add_descriptors(std::vector<pollfd>& entries) const;
  // Takes and sends nothing from now on.
  void close(const std::string& why) { fail(why); }
  // Sends what is left, until the deadline.
  void finish(Deadline deadline);

 private:
  void receive();
  void fail(const std::string& why);

  Socket socket_;
  std::vector<std::byte> unsent_;
  std::vector<std::byte> received_;
  std::string why_broken_;
};

}  // namespace trireme
