#pragma once

#include <span>

#include "graph/axis.h"
#include "graph/model_shard.h"

namespace trireme {

// The part of a dim that one rank has: [begin, begin + count) of `total`.
struct AxisPart {
  int64_t total = 0;
  int64_t begin = 0;
  int64_t count = 0;
  int copies = 1;  // neighbouring tp ranks that have this same part
};

// `shard` says which of the tp ranks this is, and into how many slices dims are cut. The dim has an
// extent.
AxisPart part_of(const Dim& dim, const ModelShard& shard);

// Dims that are flattened into one; only the slowest may be shared out.
AxisPart part_of(std::span<const Dim> dims, const ModelShard& shard);

// A dim of a transformer, with the extent that the model gives it.
Dim dim_of(Axis axis, const ModelSpec& model);

}  // namespace trireme
