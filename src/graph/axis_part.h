#pragma once

#include <span>

#include "graph/axis.h"
#include "graph/model_shard.h"

namespace trireme {

// The part of an axis that one rank has: [begin, begin + count) of `total`.
struct AxisPart {
  int64_t total = 0;
  int64_t begin = 0;
  int64_t count = 0;
  int copies = 1;  // neighbouring tp ranks that have this same part
};

// `model`: the whole one; `shard`: what the rank holds of it. Axes of parameters only.
AxisPart part_of(Axis axis, const ModelSpec& model, const ModelShard& shard);

// Axes that are flattened into one dim; only the slowest may be shared out.
AxisPart part_of(std::span<const Axis> axes, const ModelSpec& model, const ModelShard& shard);

}  // namespace trireme
