#pragma once

#include <cstdint>

namespace trireme {

// Memory that a plan needs.
struct NeededBytes {
  int64_t of_rank = 0;  // the rank that needs the most
  int64_t of_all = 0;
};

}  // namespace trireme
