#include "graph/axis_part.h"

#include <algorithm>

#include "base/check.h"
#include "graph/op_placement.h"

namespace trireme {
namespace {

// Heads are whole, and where there are fewer of keys and values than ranks, neighbours have the
// same one.
AxisPart part_of_heads(int64_t extent, const LayerSlices& slices) {
  const int64_t ranks = slices.all / slices.count, rank = slices.first / slices.count;
  const int64_t copies = std::max<int64_t>(1, ranks / extent);
  const int64_t count = std::max<int64_t>(1, extent / ranks);
  return {extent, count * (rank / copies), count, int(copies)};
}

}  // namespace

AxisPart part_of(const Dim& dim, const ModelShard& shard) {
  TRIREME_CHECK(dim.extent > 0, "a dim without an extent has no parts");
  if (!is_cut(dim)) return {dim.extent, 0, dim.extent};
  if (dim.axis == Axis::Head || dim.axis == Axis::KvHead) {
    return part_of_heads(dim.extent, shard.slices);
  }
  const int64_t granules = dim.extent / dim.granule;
  const int64_t begin = shard.slices.begin(granules, 0);
  const int64_t end = shard.slices.begin(granules, shard.slices.count);
  return {dim.extent, begin * dim.granule, (end - begin) * dim.granule};
}

AxisPart part_of(std::span<const Dim> dims, const ModelShard& shard) {
  AxisPart flat = part_of(dims.front(), shard);
  for (const Dim& dim : dims.subspan(1)) {
    const AxisPart inner = part_of(dim, shard);
    TRIREME_CHECK(inner.count == inner.total, "an inner axis is not shared out");
    flat.total *= inner.total;
    flat.begin *= inner.total;
    flat.count *= inner.total;
  }
  return flat;
}

Dim dim_of(Axis axis, const ModelSpec& model) {
  switch (axis) {
    case Axis::Width:
      return {axis, model.d_model};
    case Axis::Head:
      return {axis, model.heads};
    case Axis::KvHead:
      return {axis, model.kv_heads};
    case Axis::HeadWidth:
      return {axis, model.head_dim};
    case Axis::RopeWidth:
      return {axis, model.qk_rope_head_dim};
    case Axis::KeyWidth:
      return {axis, model.key_dim()};
    case Axis::ValueWidth:
      return {axis, model.v_head_dim};
    case Axis::Latent:
      return {axis, model.kv_lora_rank};
    case Axis::QueryLatent:
      return {axis, model.q_lora_rank};
    case Axis::IndexHead:
      return {axis, model.index_heads};
    case Axis::IndexWidth:
      return {axis, model.index_head_dim};
    case Axis::ChosenKey:
      return {axis, std::min(model.index_top_k, model.seq_len)};
    case Axis::Hidden:
      return {axis, model.d_ff};
    case Axis::DenseHidden:
      return {axis, model.dense_d_ff};
    case Axis::SharedHidden:
      return {axis, model.shared_width(), model.shared_experts};
    case Axis::Vocabulary:
      return {axis, model.vocab_size};
    case Axis::Position:
      return {axis, model.seq_len};
    case Axis::Expert:
      return {axis, model.experts};
    case Axis::AdapterRank:
      return {axis, model.lora_rank};
    default:
      return axis;
  }
}

}  // namespace trireme
