#pragma once

#include <sched.h>

#include <optional>
#include <span>
#include <thread>

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

// Binds every worker of a team to a core of its own, if the team has as many threads as its process
// has cores; else, or without `binds`, they may use all cores. Unbound, two of them may stay on one
// core for seconds, because they sleep so often that the kernel does not take it for overloaded.
// The caller of the team is not bound, because threads that it starts later would share its core.
void bind_workers(std::span<std::thread> workers, bool binds);

}  // namespace trireme
