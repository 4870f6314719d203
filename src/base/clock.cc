#include "base/clock.h"

#include <time.h>

#include <chrono>

namespace trireme {

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double seconds_since(int64_t begin_ns) { return double(monotonic_ns() - begin_ns) * 1e-9; }

int64_t thread_cpu_ns() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

double unix_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace trireme
