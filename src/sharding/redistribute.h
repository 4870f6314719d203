#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/group.h"
#include "schema/placement.h"
#include "tensor/tensor.h"

namespace trireme {

// Maps placements over the ranks of a group to collectives:
//
// from \ to    replicate   invariant   shard(e)        partial
// replicate    copy        copy        slice           rank 0 keeps
// invariant    copy        copy        slice           rank 0 keeps
// shard(d)     all_gather  all_gather  all_to_all      zeros around
// partial      all_reduce  all_reduce  reduce_scatter  copy
//
// (shard(d) to shard(d) is a copy.) Sums use the canonical tree over the ranks. The backward of a
// -> b is dual(b) -> dual(a): see backward_of.
//
// y = x with placement `to` instead of `from`. x and y have their local shapes of `global`; they
// are the same memory or do not overlap. `scratch` has at least redistribute_scratch_bytes.
void redistribute(Group& group, const Redistribution& change, const Shape& global, TensorRef x,
                  TensorRef y, std::span<std::byte> scratch, CallSite site = CallSite::current());

// Scratch of the rank that needs the most. It is 0 if no parts have to be packed (sharding along
// the first dim).
int64_t redistribute_scratch_bytes(const Redistribution& change, const Shape& global, DType dtype,
                                   int group_size);

}  // namespace trireme
