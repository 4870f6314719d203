#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"

namespace trireme {

// Answers GET /metrics over HTTP with a text, on a thread of its own. A client has a few seconds in
// all; who is slower is let go, so that nobody holds it up for long.
class MetricsServer {
 public:
  // `host` is an IPv4 address to listen at; port 0 takes a free one. `text` is called by the
  // server's thread.
  static Result<std::unique_ptr<MetricsServer>> listen(const std::string& host, int port,
                                                       std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const { return port_; }

 private:
  MetricsServer(int listening, int wake, int port, std::function<std::string()> text);
  void serve();
  void answer(int client);
  // Whether `fd` is ready for `events` before the deadline; false too when the server is to end.
  bool wait(int fd, short events, int64_t deadline_ns) const;

  int listening_, wake_, port_;
  std::function<std::string()> text_;
  std::thread thread_;
};

}  // namespace trireme
