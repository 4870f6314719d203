#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace trireme {

// True if the dtypes are equal or both floating-point.
bool is_convertible(DType from, DType to);

// Copies num_elements elements, rounding to nearest even if `to` is narrower. `source` may be
// unaligned. Returns the index of the first result that is a NaN or Inf, or -1.
int64_t copy_converted(const std::byte* source, DType from, std::byte* out, DType to,
                       int64_t num_elements);

}  // namespace trireme
