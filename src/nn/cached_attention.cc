#include "nn/cached_attention.h"

#include <cmath>

namespace trireme {

CachedAttention::CachedAttention(const OpBinding& b, const MatrixRef& cache_S_2K)
    : model_(b.model()),
      q_TQ_(b.input(0)),
      k_TK_(b.input(1)),
      v_TK_(b.input(2)),
      o_TQ_(b.output()),
      cache_S_2K_(cache_S_2K) {}

void CachedAttention::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const MatrixRef q_TQ = m(q_TQ_);
  const int64_t K = model_.kv_width(), length = info.first_position + q_TQ.rows;
  const MatrixRef added = rows_of(cache_S_2K_, info.first_position, q_TQ.rows);
  ctx.kernels.copy_matrix(ctx.stream, {m(k_TK_), cols_of(added, 0, K)});
  ctx.kernels.copy_matrix(ctx.stream, {m(v_TK_), cols_of(added, K, K)});
  const MatrixRef cache = rows_of(cache_S_2K_, 0, length);
  const AttentionShape shape{1,
                             q_TQ.rows,
                             length,
                             model_.heads,
                             model_.kv_heads,
                             model_.head_dim,
                             1.0f / std::sqrt(static_cast<float>(model_.head_dim))};
  ctx.kernels.attention_forward(
      ctx.stream, {shape, {}, q_TQ, cols_of(cache, 0, K), cols_of(cache, K, K), m(o_TQ_), {}});
}

}  // namespace trireme
