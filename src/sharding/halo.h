#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/group.h"
#include "schema/placement.h"
#include "tensor/tensor.h"

namespace trireme {

// The two redistributions of Placement::Kind::Halo (redistribute.h); `global` is [images, rows,
// numbers of a row]. `scratch` has redistribute_scratch_bytes.

// y = the rows of the halo; x = this rank's own rows.
void fetch_halo(Group& group, const Placement& halo, const Shape& global, const TensorRef& x,
                const TensorRef& y, std::span<std::byte> scratch, const CallSite& site);

// The mirror: y = the sum of all ranks' addends for this rank's own rows; x = this rank's addends
// for the rows of the halo. Each sum of two is rounded once. fp32, bf16 or fp16.
void return_halo(Group& group, const Placement& halo, const Shape& global, const TensorRef& x,
                 const TensorRef& y, std::span<std::byte> scratch, const CallSite& site);

}  // namespace trireme
