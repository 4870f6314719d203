#include "graph/token_counts.h"

#include "schema/image_band.h"

namespace trireme {

TokenCounts::TokenCounts(const ModelShard& shard, const StageShape& shape)
    : sequences(shape.micro_sequences),
      all(shape.micro_sequences * shard.local_len()),
      residual(local_shape(Shape{all}, shard.residual, shape.tp, shape.tp_rank).num_elements()),
      first(0),
      is_split(shard.residual.kind == Placement::Kind::Shard),
      tp(shape.tp),
      tp_rank(shape.tp_rank) {
  if (is_split) first = balanced_begin(all, shape.tp, shape.tp_rank);
}

int64_t TokenCounts::rows_of(const Value& value) const {
  if (lies_by_rows(value)) return all * image_rows_of(value).count() * value.dims[2].extent;
  const bool is_part = value.placement.tp == Placement::shard(0);
  return (is_part ? residual : all) * value.inner_rows();
}

IndexRange TokenCounts::image_rows_of(const Value& value) const {
  const int64_t extent = value.dims[1].extent;
  if (!lies_by_rows(value)) return {0, extent};
  return local_range(extent, value.placement.tp, tp, tp_rank);
}

ImageWindow TokenCounts::window_of(const Graph& graph, const Op& op) const {
  const Value& x = graph.values[size_t(op.inputs.front())];
  ImageWindow window = op.window;
  window.images = x.placement.tp == Placement::shard(0) ? residual : all;
  if (x.placement.tp.kind == Placement::Kind::Halo) return band_of_rank(window, tp, tp_rank);
  window.height = image_rows_of(x).count();
  return window;
}

}  // namespace trireme
