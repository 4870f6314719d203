#pragma once

#include <sched.h>

#include <optional>

namespace trireme {

// While it lives, the thread that made it, and the threads that this one starts, stay on their
// rank's share of the cores. Ranks of one process that wait for each other are otherwise moved onto
// one core: they take turns there, and the kernel sees no core that has too much to do.
class CoreBinding {
 public:
  // Of `num_ranks` ranks with `num_threads` threads each, the rank-th. Binds only where they take
  // all cores that the process may use: two runs that leave some free would meet on the same ones.
  CoreBinding(int rank, int num_ranks, int num_threads);
  ~CoreBinding();
  CoreBinding(const CoreBinding&) = delete;
  CoreBinding& operator=(const CoreBinding&) = delete;

 private:
  std::optional<cpu_set_t> before_;  // what the thread goes back to
};

}  // namespace trireme
