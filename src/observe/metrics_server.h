#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace trireme {

// Answers GET /metrics over HTTP with a text, on its own thread. The thread never waits for one
// client; it serves each as far as its bytes have arrived. A client has two seconds from its
// connection to the last byte of its answer. If all connections are taken, a new one replaces the
// oldest.
class MetricsServer {
 public:
  static constexpr size_t kMostConnections = 32;

  // `host` is the IPv4 address to listen at; port 0 takes a free port. The server's thread calls
  // `text`, which must return at once.
  static Result<std::unique_ptr<MetricsServer>> listen(const std::string& host, int port,
                                                       std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const { return port_; }

 private:
  struct Connection {
    int fd = -1;
    int64_t deadline_ns = 0;
    std::string request;  // bytes received so far
    std::string reply;    // bytes still to be sent; "" until the request is complete
  };

  MetricsServer(int listening, int wake, int port, std::function<std::string()> text);
  void serve();
  void accept_all();
  // Reads and writes as much as possible without waiting. Returns false if the connection must be
  // closed.
  bool advance(Connection& connection) const;
  void close_ended(int64_t now_ns);

  int listening_, wake_, port_;
  std::function<std::string()> text_;
  std::vector<Connection> connections_;  // used only by the server's thread; oldest first
  int64_t accept_from_ns_ = 0;           // no new connection is accepted before this time
  std::thread thread_;
};

}  // namespace trireme
