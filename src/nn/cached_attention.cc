#include "nn/cached_attention.h"

namespace trireme {

CachedAttention::CachedAttention(const OpBinding& b, const MatrixRef& cache_NX)
    : model_(b.model()),
      window_(b),
      q_TQ_(b.input(0)),
      k_TK_(b.input(1)),
      v_TK_(b.input(2)),
      o_TQ_(b.output()),
      cache_NX_(cache_NX) {}

void CachedAttention::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const TensorRef first_T = window_(info, m, m(q_TQ_).rows).first_T;
  for (const CachedRows& rows : info.cached_rows) attend(ctx, m, rows, first_T);
}

void CachedAttention::attend(Ctx& ctx, const SlotMemory& m, const CachedRows& rows,
                             const TensorRef& first_T) const {
  const auto own = [&](const MatrixAt& x) { return rows_of(m(x), rows.first_row, rows.num_rows); };
  const int64_t K = model_.k_width(), V = model_.v_width();
  const MatrixRef cache = cache_of(rows, cache_NX_, model_.seq_len);
  const MatrixRef added = places_of(rows, cache_NX_, model_.seq_len);
  ctx.kernels.copy_matrix(ctx.stream, {own(k_TK_), cols_of(added, 0, K)});
  ctx.kernels.copy_matrix(ctx.stream, {own(v_TK_), cols_of(added, K, V)});
  AttentionShape shape = attention_shape(model_, 1);
  shape.q_len = rows.num_rows;
  shape.kv_len = cache.rows;
  const AttentionWindow window{first_keys_of(rows, first_T), {}};
  ctx.kernels.attention_forward(
      ctx.stream,
      {shape, {}, own(q_TQ_), cols_of(cache, 0, K), cols_of(cache, K, V), own(o_TQ_), {}, window});
}

}  // namespace trireme
