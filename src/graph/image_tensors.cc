#include "graph/image_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "schema/redistribution_scratch.h"

namespace trireme {

BatchNormBlocks batch_norm_blocks(const Graph& graph, const Op& op, const TokenCounts& images,
                                  int batch_ranks) {
  const Value& x = graph.values[size_t(op.inputs.front())];
  const int64_t channels = x.dims.back().extent;
  BatchNormBlocks blocks;
  blocks.part_name = fmt::format("batch_norm.part_b2x{}", channels);
  blocks.sums_name = fmt::format("{}.sums_B2x{}", op.name, channels);
  blocks.of_tp_name = fmt::format("batch_norm.of_tp_b2x{}", channels);
  blocks.of_tp = images.all;
  blocks.all = batch_ranks * blocks.of_tp;
  blocks.own = x.placement.tp == Placement::shard(0) ? images.residual : images.all;
  blocks.own_rows = blocks.rows = x.inner_rows();
  if (!lies_by_rows(x)) return blocks;
  const int64_t extent = x.dims[1].extent, width = x.dims[2].extent;
  blocks.part_name = fmt::format("batch_norm.part_rows_b2x{}", channels);
  blocks.sums_name = fmt::format("{}.sums_rows_B2x{}", op.name, channels);
  blocks.of_tp = images.tp * images.all;
  blocks.all = batch_ranks * blocks.of_tp;
  blocks.own_rows = images.image_rows_of(x).count() * width;
  blocks.rows = extent / images.tp * width;
  blocks.taller = extent % images.tp * images.all;
  blocks.taller_rows = (extent / images.tp + 1) * width;
  return blocks;
}

Shape whole_images(const Value& value, int64_t images) {
  return {images, value.dims[1].extent, value.dims[2].extent * value.dims[3].extent};
}

std::string image_scratch_name(int64_t bytes) { return fmt::format("images.scratch_{}", bytes); }

int64_t image_scratch_bytes(const Graph& graph, const Op& op, const TokenCounts& images,
                            DType dtype) {
  const Value& value = graph.values[size_t(op.inputs.front())];
  if (!has_images(value) || op.axis != MeshAxis::Tp) return 0;
  const Shape whole = whole_images(value, images.all);
  return std::max(redistribute_scratch_bytes(op.change, whole, dtype, images.tp),
                  redistribute_scratch_bytes(backward_of(op.change), whole, dtype, images.tp));
}

}  // namespace trireme
