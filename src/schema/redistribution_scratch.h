#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "schema/placement.h"

namespace trireme {

// Scratch of a redistribution (sharding/redistribute.h) on the rank that needs the most. It is 0 if
// no parts have to be packed (sharding along the first dim).
int64_t redistribute_scratch_bytes(const Redistribution& change, const Shape& global, DType dtype,
                                   int group_size);

}  // namespace trireme
