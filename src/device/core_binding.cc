#include "device/core_binding.h"

namespace trireme {

namespace {

// Those of the cores whose place among `all` is in [begin, end).
cpu_set_t cores_between(const cpu_set_t& all, int begin, int end) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core = 0, place = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    if (place >= begin && place < end) CPU_SET(core, &cores);
    ++place;
  }
  return cores;
}

}  // namespace

CoreBinding::CoreBinding(int rank, int num_ranks, int num_threads) {
  cpu_set_t all;
  if (num_ranks == 1 || ::sched_getaffinity(0, sizeof all, &all) != 0) return;
  if (CPU_COUNT(&all) != num_ranks * num_threads) return;
  const cpu_set_t own = cores_between(all, rank * num_threads, (rank + 1) * num_threads);
  // If binding is not allowed, the run continues without it.
  if (::sched_setaffinity(0, sizeof own, &own) == 0) before_ = all;
}

CoreBinding::~CoreBinding() {
  if (before_) ::sched_setaffinity(0, sizeof *before_, &*before_);
}

void bind_workers(std::span<std::thread> workers, bool binds) {
  cpu_set_t all;
  if (::sched_getaffinity(0, sizeof all, &all) != 0) return;
  if (CPU_COUNT(&all) != int(workers.size()) + 1) return;
  for (int thread = 1; std::thread & worker : workers) {
    const cpu_set_t cores = binds ? cores_between(all, thread, thread + 1) : all;
    ++thread;
    // If it is not allowed, the kernel chooses.
    ::pthread_setaffinity_np(worker.native_handle(), sizeof cores, &cores);
  }
}

}  // namespace trireme
