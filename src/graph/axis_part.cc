#include "graph/axis_part.h"

#include "base/check.h"

namespace trireme {

AxisPart part_of(Axis axis, const ModelSpec& model, const ModelShard& shard) {
  const auto all = [](int64_t total) { return AxisPart{total, 0, total}; };
  switch (axis) {
    case Axis::Width:
      return all(model.d_model);
    case Axis::Head:
      return {model.heads, shard.first_head, shard.heads};
    case Axis::KvHead:
      return {model.kv_heads, shard.first_kv_head, shard.kv_heads, shard.kv_copies};
    case Axis::HeadWidth:
      return all(model.head_dim);
    case Axis::RopeWidth:
      return all(model.qk_rope_head_dim);
    case Axis::KeyWidth:
      return all(model.key_dim());
    case Axis::ValueWidth:
      return all(model.v_head_dim);
    case Axis::Latent:
      return all(model.kv_lora_rank);
    case Axis::QueryLatent:
      return all(model.q_lora_rank);
    case Axis::Hidden:
      return {model.d_ff, shard.first_ff, shard.d_ff};
    case Axis::DenseHidden:
      return {model.dense_d_ff, shard.first_dense_ff, shard.dense_d_ff};
    case Axis::SharedHidden:
      return {model.shared_width(), model.shared_experts * shard.first_ff, shard.shared_width()};
    case Axis::Vocabulary:
      return {model.vocab_size, shard.first_token, shard.vocab_size};
    case Axis::Position:
      return all(model.seq_len);
    case Axis::Expert:
      return all(model.experts);
    case Axis::AdapterRank:
      return all(model.lora_rank);
    default:
      TRIREME_CHECK(false, "no parameter has this axis");
  }
}

AxisPart part_of(std::span<const Axis> axes, const ModelSpec& model, const ModelShard& shard) {
  AxisPart flat = part_of(axes.front(), model, shard);
  for (const Axis axis : axes.subspan(1)) {
    const AxisPart inner = part_of(axis, model, shard);
    TRIREME_CHECK(inner.count == inner.total, "an inner axis is not shared out");
    flat.total *= inner.total;
    flat.begin *= inner.total;
    flat.count *= inner.total;
  }
  return flat;
}

}  // namespace trireme
