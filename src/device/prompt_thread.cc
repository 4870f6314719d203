#include "device/prompt_thread.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace trireme {
namespace {

// The struct of the kernel (sched_setattr(2)), which the C library does not declare.
struct SchedAttributes {
  uint32_t size = sizeof(SchedAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

constexpr uint64_t kTurnNs = 100'000;  // the shortest time slice that the kernel grants

}  // namespace

void ask_for_short_turns() {
  SchedAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != 0) return;  // the user has chosen another scheduler
  attributes.runtime_ns = kTurnNs;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace trireme
