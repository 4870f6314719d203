#pragma once

#include <cstdint>
#include <vector>

#include "train/engine.h"

namespace trireme {

// Reads the clock (monotonic_ns) of every host right after a barrier. Returns [rank] the clock of
// its host; ranks of one host have the same number. The moments differ by the latency of a message.
// All ranks must call it.
std::vector<int64_t> host_clocks(Engine& engine);

// Returns the earliest moment that a rank names, by the clock of this rank. `own_ns` is the moment
// of this rank by its own clock; INT64_MAX: it names none. If no rank names one, returns the
// present time. All ranks must call it.
int64_t earliest_ns(Engine& engine, int64_t own_ns);

}  // namespace trireme
