#pragma once

#include <csignal>

namespace trireme {

// Blocks SIGINT, SIGTERM, SIGUSR1 and SIGCHLD while it exists, and hands them out one by one.
// Threads that are started meanwhile inherit the mask.
class TakenSignals {
 public:
  TakenSignals();
  ~TakenSignals();
  TakenSignals(const TakenSignals&) = delete;
  TakenSignals& operator=(const TakenSignals&) = delete;

  int fd() const { return fd_; }                      // becomes readable when a signal arrives
  int next() const;                                   // 0: none is pending
  const sigset_t& before() const { return before_; }  // the mask of the process without this object

 private:
  int fd_;
  sigset_t before_;
};

}  // namespace trireme
