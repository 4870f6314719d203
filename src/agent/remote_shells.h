#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// Starts the agents of other hosts through a remote shell, such as ssh, and starts an agent again
// if its shell has ended while the job goes on.
class RemoteShells {
 public:
  // `shell` is the command in front of the name of the host. `agent` is the command of an agent
  // without its name. Shells get `mask` and read `secret` from their standard input.
  struct Options {
    std::vector<std::string> shell;
    std::vector<std::string> agent;
    std::string secret;
    sigset_t mask;
  };
  explicit RemoteShells(Options options) : options_(std::move(options)) {}
  // Waits some seconds for the shells to end, then kills them.
  ~RemoteShells();
  RemoteShells(const RemoteShells&) = delete;
  RemoteShells& operator=(const RemoteShells&) = delete;

  Status start(const std::string& host);
  // Starts shells again that have ended some time ago. Calls `tell` with a sentence for each shell
  // that has ended since the last call.
  void look(const std::function<void(const std::string&)>& tell);
  // Names of the hosts whose shells have ended.
  std::vector<std::string> ended() const;

 private:
  struct Shell {
    std::string host;
    pid_t pid = -1;  // -1: it has ended
    int64_t ended_ns = 0;
  };
  Status start(Shell& shell) const;
  std::vector<std::string> words_for(const std::string& host) const;

  Options options_;
  std::vector<Shell> shells_;
};

}  // namespace trireme
