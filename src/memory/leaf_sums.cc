#include "memory/leaf_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/align.h"
#include "graph/axis_part.h"

namespace trireme {
namespace {

int64_t elements_of(const Param& param, const ModelShard& shard) {
  const int64_t rows = part_of(param.rows, shard).count;
  return param.is_matrix() ? rows * part_of(param.columns, shard).count : rows;
}

// The gradients of an op's parameters as they lie in the table of gradients.
int64_t gradient_bytes(const Graph& graph, const Op& op, const ModelShard& shard, DType grad) {
  int64_t bytes = 0;
  for (const ParamId id : op.params) {
    const Param& param = graph.params[size_t(id)];
    if (!param.is_trained) continue;
    bytes += aligned_bytes(elements_of(param, shard) * size_of(grad));
  }
  return bytes;
}

}  // namespace

std::string leaf_sum_name(int level) { return fmt::format("leaf_sum.{}", level); }

int num_leaf_levels(int64_t leaves) { return std::bit_width(uint64_t(leaves - 1)); }

void add_leaf_sums(TensorTable& scratch, const StageUnits& units, const ModelShard& shard,
                   const StageShape& shape) {
  if (shape.leaves == 1) return;
  int64_t most = 0;
  for (const UnitKind& kind : units.kinds) {
    for (const Op& op : kind.graph.ops) {
      most = std::max(most, gradient_bytes(kind.graph, op, shard, shape.grad));
    }
  }
  for (int level = 0; level < num_leaf_levels(shape.leaves); ++level) {
    scratch.add(leaf_sum_name(level), Shape{most}, DType::U8);
  }
}

}  // namespace trireme
