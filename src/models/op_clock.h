#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "graph/op_half.h"
#include "nn/ctx.h"

namespace trireme {

// Nanoseconds that the ops of a stage have taken, unit by unit in the order of F. A call counts
// without its waits for other ranks, so it can be compared with the price of the op.
struct OpClock {
  std::vector<std::array<int64_t, std::tuple_size_v<OpSeconds>>> op_ns;
};

// Returns a clock that stands still while the rank waits for the ranks that share its layers. Turns
// between two actions must be measured by the same clock: what one action waits for in the turn of
// the other is no time of the other.
int64_t running_ns(const Ctx& ctx);

}  // namespace trireme
