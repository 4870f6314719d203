#pragma once

#include <cstdint>

namespace trireme {

// Nanoseconds of the monotonic clock.
int64_t monotonic_ns();
// Seconds since monotonic_ns() returned `begin_ns`.
double seconds_since(int64_t begin_ns);

// Nanoseconds that the calling thread has run on a core.
int64_t thread_cpu_ns();

// Seconds since 1970.
double unix_time_s();

}  // namespace trireme
