#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/tcp/socket.h"

namespace trireme {

// A host on which no rank is placed any more sends its parts of checkpoints in memory to the agent
// of a host that has ranks (base/guest_parts.h). Both sides work on threads of their own.

// Sends the parts of one host.
class PartsSender {
 public:
  // `folder` has the parts of the host `name`; "": it has none. `address` is that of the other
  // agent.
  PartsSender(std::string address, std::string secret, std::string name, std::string folder);
  ~PartsSender();
  PartsSender(const PartsSender&) = delete;
  PartsSender& operator=(const PartsSender&) = delete;

  bool is_over() const { return is_over_; }
  const Status& result() const { return result_; }  // once it is over

 private:
  Status send(const std::string& address, const std::string& secret, const std::string& name,
              const std::string& folder);

  std::atomic<bool> must_end_{false};
  std::atomic<bool> is_over_{false};
  Status result_ = Done{};
  std::thread thread_;
};

// Receives the parts of other hosts. They appear in the folder once they are complete.
class PartsReceivers {
 public:
  ~PartsReceivers();
  // Takes a visitor that has come to send parts into `folder`; "": there is none.
  void take(Socket socket, const std::string& folder);

 private:
  struct Receiver {
    Socket socket;
    std::atomic<bool> is_over{false};
    std::thread thread;
  };
  std::vector<std::unique_ptr<Receiver>> receivers_;
};

}  // namespace trireme
