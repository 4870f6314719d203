#pragma once

#include <cstdint>

namespace trireme {

// Nanoseconds of the monotonic clock.
int64_t monotonic_ns();

}  // namespace trireme
