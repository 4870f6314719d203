#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/group.h"
#include "schema/placement.h"
#include "schema/redistribution_scratch.h"
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
// From shard(1) of [images, rows, numbers of a row] to a halo, ranks send each other the rows that
// windows read beyond their own, by all_to_all. From the halo back to shard(1), each returns its
// addends for the rows of others, and adds those that it receives to its own, in rank order.
//
// y = x with placement `to` instead of `from`. x and y have their local shapes of `global`; they
// are the same memory or do not overlap. `scratch` has at least redistribute_scratch_bytes.
void redistribute(Group& group, const Redistribution& change, const Shape& global, TensorRef x,
                  TensorRef y, std::span<std::byte> scratch, CallSite site = CallSite::current());

}  // namespace trireme
