#pragma once

#include <cstdint>
#include <string>

#include "graph/model_shard.h"
#include "memory/stage_units.h"
#include "memory/tensor_table.h"

namespace trireme {

// The scratch in which the gradients of the leaves of a micro-batch meet (StageShape::leaves), by
// level of their tree. A level has room for the gradients of any op.
std::string leaf_sum_name(int level);
// The levels of a tree over so many leaves.
int num_leaf_levels(int64_t leaves);
// Adds this scratch to the table of a stage's scratch.
void add_leaf_sums(TensorTable& scratch, const StageUnits& units, const ModelShard& shard,
                   const StageShape& shape);

}  // namespace trireme
