#pragma once

#include <sched.h>

#include <optional>

namespace trireme {

// While this object exists, its thread and the threads started by it stay on their rank's share of
// the cores. Otherwise the kernel may move ranks of one process that wait for each other onto one
// core, where they take turns, because no core looks overloaded.
class CoreBinding {
 public:
  // Binds rank `rank` of `num_ranks` ranks with `num_threads` threads each. It binds only if they
  // use all cores of the process, because two runs that leave cores free would be bound to the same
  // ones.
  CoreBinding(int rank, int num_ranks, int num_threads);
  ~CoreBinding();
  CoreBinding(const CoreBinding&) = delete;
  CoreBinding& operator=(const CoreBinding&) = delete;

 private:
  std::optional<cpu_set_t> before_;  // restored at the end
};

}  // namespace trireme
