#include "graph/latent_ring.h"

#include <algorithm>
#include <utility>

#include "graph/axis_part.h"
#include "graph/latent_expansion.h"
#include "graph/op_placement.h"

namespace trireme {
namespace {

// The tp ranks share out heads evenly.
int64_t own_columns(const Value& value, const StageShape& layout) {
  int64_t columns = 1;
  for (const Dim& dim : value.column_dims()) columns *= dim.extent;
  return has_cut_columns(value) ? columns / layout.tp : columns;
}

}  // namespace

Graph ring_of_latents(Graph stacked, const StageShape& layout) {
  if (context_strategy(layout) != ContextStrategy::Ring) return stacked;
  const Graph before = stacked;
  const auto columns = [&](ValueId id) { return own_columns(before.values[size_t(id)], layout); };
  const auto is_plain_matrix = [&](ParamId id) {
    const Param& param = before.params[size_t(id)];
    return param.is_matrix() && !param.is_adapter;
  };
  return join_latent_expansions(
      std::move(stacked), [&](const Op& attention, const LatentExpansion& expansion) {
        const std::vector<ParamId>& params = expansion.product->params;
        const int64_t latents =
            columns(expansion.product->inputs.front()) + columns(expansion.concat->inputs[1]);
        const bool sees_all_keys = attention.inputs.size() == 3;
        return sees_all_keys && std::all_of(params.begin(), params.end(), is_plain_matrix) &&
               latents < columns(attention.inputs[1]) + columns(attention.inputs[2]);
      });
}

int64_t ring_columns(const Graph& layer, const ModelShard& shard) {
  for (const Op& op : layer.ops) {
    if (op.kind != OpKind::Attention && op.kind != OpKind::LatentAttention) continue;
    int64_t columns = 0;
    for (const size_t input : {size_t{1}, size_t{2}}) {
      columns += part_of(layer.values[size_t(op.inputs[input])].column_dims(), shard).count;
    }
    return columns;
  }
  return 0;
}

}  // namespace trireme
