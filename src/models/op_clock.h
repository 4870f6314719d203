#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "graph/op_half.h"

namespace trireme {

// Nanoseconds that the ops of a stage have taken, unit by unit in the order of F. A call counts
// without its waits for other ranks, so it can be compared with the price of the op.
struct OpClock {
  std::vector<std::array<int64_t, std::tuple_size_v<OpSeconds>>> op_ns;
};

}  // namespace trireme
