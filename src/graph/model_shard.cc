#include "graph/model_shard.h"

#include <algorithm>

#include "base/check.h"
#include "schema/degree_rules.h"

namespace trireme {
LayerSlices LayerSlices::of(const StageShape& shape) {
  const int all = shape.slices > 0 ? shape.slices : shape.tp, count = all / shape.tp;
  return {all, shape.tp_rank * count, count, shape.slices > 0};
}

int64_t ModelShard::sent_rows(int64_t num_tokens) const {
  return std::min(num_tokens * top_k, experts * taken_by_expert(num_tokens));
}

int64_t ModelShard::held_rows(int64_t num_tokens) const {
  const int64_t visits = num_tokens * std::min(top_k, held_experts);
  return ep * std::min(visits, held_experts * taken_by_expert(num_tokens));
}

ModelShard shard_model(const ModelSpec& model, const StageShape& shape) {
  const Mesh mesh{.tp = shape.tp, .cp = shape.cp, .ep = shape.ep};
  const Status fits = check_degrees(model, mesh, shape.context_exchange);
  TRIREME_CHECK(fits.ok(), fits.error().message);
  TRIREME_CHECK(shape.tp_rank >= 0 && shape.tp_rank < shape.tp, "no such tp rank");
  const int tp = shape.tp, rank = shape.tp_rank;
  ModelShard shard{model};
  shard.heads = model.heads / tp;
  shard.first_head = shard.heads * rank;
  shard.kv_copies = int(std::max<int64_t>(1, tp / model.kv_heads));
  shard.kv_heads = std::max<int64_t>(1, model.kv_heads / tp);
  shard.first_kv_head = shard.kv_heads * (rank / shard.kv_copies);
  TRIREME_CHECK(shape.slices % tp == 0, "every tp rank has as many slices");
  shard.slices = LayerSlices::of(shape);
  const auto begin = [&](int64_t total) { return shard.slices.begin(total, 0); };
  const auto count = [&](int64_t total) {
    return shard.slices.begin(total, shard.slices.count) - begin(total);
  };
  shard.d_ff = count(model.d_ff);
  shard.first_ff = begin(model.d_ff);
  shard.dense_d_ff = count(model.dense_d_ff);
  shard.first_dense_ff = begin(model.dense_d_ff);
  shard.vocab_size = count(model.vocab_size);
  shard.first_token = begin(model.vocab_size);
  shard.num_tokens = model.vocab_size;
  TRIREME_CHECK(shape.cp_rank >= 0 && shape.cp_rank < shape.cp, "no such cp rank");
  shard.chunks = {model.seq_len, shape.cp, shape.cp_rank};
  TRIREME_CHECK(shape.ep_rank >= 0 && shape.ep_rank < shape.ep, "no such ep rank");
  shard.ep = shape.ep;
  shard.held_experts = model.held_experts / shape.ep;
  shard.first_expert = model.first_expert + shard.held_experts * shape.ep_rank;
  shard.tp_overlap = shape.tp_overlap;
  shard.layers = shape.layers;
  shard.residual = shape.sequence_parallel ? Placement::shard(0) : Placement::invariant();
  return shard;
}

}  // namespace trireme
