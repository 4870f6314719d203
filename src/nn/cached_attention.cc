#include "nn/cached_attention.h"

namespace trireme {

CachedAttention::CachedAttention(const OpBinding& b, const MatrixRef& cache_SX)
    : model_(b.model()),
      window_(b),
      q_TQ_(b.input(0)),
      k_TK_(b.input(1)),
      v_TK_(b.input(2)),
      o_TQ_(b.output()),
      cache_SX_(cache_SX) {}

void CachedAttention::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const MatrixRef q_TQ = m(q_TQ_);
  const int64_t K = model_.k_width(), V = model_.v_width();
  const int64_t length = info.first_position + q_TQ.rows;
  const MatrixRef added = rows_of(cache_SX_, info.first_position, q_TQ.rows);
  ctx.kernels.copy_matrix(ctx.stream, {m(k_TK_), cols_of(added, 0, K)});
  ctx.kernels.copy_matrix(ctx.stream, {m(v_TK_), cols_of(added, K, V)});
  const MatrixRef cache = rows_of(cache_SX_, 0, length);
  AttentionShape shape = attention_shape(model_, 1);
  shape.q_len = q_TQ.rows;
  shape.kv_len = length;
  const AttentionWindow window{window_(info, m, q_TQ.rows).first_T, {}};
  ctx.kernels.attention_forward(
      ctx.stream,
      {shape, {}, q_TQ, cols_of(cache, 0, K), cols_of(cache, K, V), m(o_TQ_), {}, window});
}

}  // namespace trireme
