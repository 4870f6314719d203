#include "device/core_binding.h"

namespace trireme {

CoreBinding::CoreBinding(int rank, int num_ranks, int num_threads) {
  cpu_set_t all;
  if (num_ranks == 1 || ::sched_getaffinity(0, sizeof all, &all) != 0) return;
  if (CPU_COUNT(&all) != num_ranks * num_threads) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  for (int core = 0, place = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    if (place++ / num_threads == rank) CPU_SET(core, &own);
  }
  // If binding is not allowed, the run continues without it.
  if (::sched_setaffinity(0, sizeof own, &own) == 0) before_ = all;
}

CoreBinding::~CoreBinding() {
  if (before_) ::sched_setaffinity(0, sizeof *before_, &*before_);
}

}  // namespace trireme
