#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "comm/tcp/handshake.h"

namespace trireme {

struct VisitLimits {
  size_t most = 256;        // visitors at one time; further ones are sent away
  double silence_s = 10.0;  // a host that does not acknowledge for so long is lost
};

// The visitors of a server, each on a thread of its own. A visitor stays until it leaves, one of
// its messages fails, or the object is destroyed.
class Visits {
 public:
  // Receives one message of the visitor and serves it. After an error or an exception its
  // connection ends, and the log says why.
  using Serve = std::function<Status(const Socket&)>;
  // Makes what serves one visitor, on the visitor's thread.
  using Open = std::function<Serve()>;

  // Visitors need the purpose Agent.
  Visits(Reception reception, const VisitLimits& limits, TcpLog log, Open open);
  // Ends all connections, also in the middle of a message, and waits for the threads.
  ~Visits();

 private:
  struct Visit {
    Socket socket;
    bool has_ended = false;  // guarded by mutex_
    std::thread thread;
  };

  void receive();
  void let_in();
  void remove_ended();
  void serve(Visit& visit);
  Status serve_all(const Socket& socket);
  void say(const std::string& sentence);
  bool is_stopping();

  const VisitLimits limits_;
  const TcpLog log_;
  const Open open_;
  Reception reception_;  // of the receiving thread, like visits_

  std::mutex mutex_;
  bool is_stopping_ = false;  // guarded by mutex_
  std::list<Visit> visits_;
  std::thread thread_;
};

}  // namespace trireme
