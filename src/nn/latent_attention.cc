#include "nn/latent_attention.h"

#include <algorithm>

#include "nn/product.h"

namespace trireme {

CachedLatentAttention::CachedLatentAttention(const OpBinding& b, const MatrixRef& cache_NX)
    : model_(b.model()),
      window_(b),
      keys_up_(rows_of(b.weight(b.op().params[0]), 0, model_.heads * model_.head_dim)),
      values_up_(b.weight(b.op().params[1])),
      keys_adapter_(b, 0),
      values_adapter_(b, 1),
      q_TQ_(b.input(0)),
      latent_TR_(b.input(1)),
      shared_TP_(b.input(2)),
      o_TV_(b.output()),
      queries_tX_(b.matrix_of(b.op().name + ".queries_tX")),
      latents_tX_(b.matrix_of(b.op().name + ".latents_tX")),
      cache_NX_(cache_NX) {}

void CachedLatentAttention::forward(Ctx& ctx, const MicrobatchInfo& info,
                                    const SlotMemory& m) const {
  const MatrixRef q_TQ = m(q_TQ_), o_TV = m(o_TV_);
  const TensorRef first_T = window_(info, m, q_TQ.rows).first_T;
  for (const CachedRows& rows : info.cached_rows) fill_cache(ctx, m, rows);
  const int64_t tile = m(queries_tX_).rows;
  for (int64_t begin = 0; begin < q_TQ.rows; begin += tile) {
    const int64_t count = std::min(tile, q_TQ.rows - begin);
    const MatrixRef queries = rows_of(m(queries_tX_), 0, count);
    const MatrixRef latents = rows_of(m(latents_tX_), 0, count);
    make_queries(ctx, m, rows_of(q_TQ, begin, count), queries);
    for (const CachedRows& all : info.cached_rows) {
      const CachedRows rows = rows_between(all, begin, begin + count);
      if (rows.num_rows == 0) continue;
      const int64_t row = rows.first_row - begin;
      attend(ctx, rows, first_T, rows_of(queries, row, rows.num_rows),
             rows_of(latents, row, rows.num_rows));
    }
    make_outputs(ctx, m, latents, rows_of(o_TV, begin, count));
  }
}

void CachedLatentAttention::fill_cache(Ctx& ctx, const SlotMemory& m,
                                       const CachedRows& rows) const {
  const auto own = [&](const MatrixAt& x) { return rows_of(m(x), rows.first_row, rows.num_rows); };
  const int64_t R = model_.kv_lora_rank, P = model_.qk_rope_head_dim;
  const MatrixRef added = places_of(rows, cache_NX_, model_.seq_len);
  ctx.kernels.copy_matrix(ctx.stream, {own(latent_TR_), cols_of(added, 0, R)});
  ctx.kernels.copy_matrix(ctx.stream, {own(shared_TP_), cols_of(added, R, P)});
}

void CachedLatentAttention::attend(Ctx& ctx, const CachedRows& rows, const TensorRef& first_T,
                                   const MatrixRef& queries_tX, const MatrixRef& latents_tX) const {
  const int64_t R = model_.kv_lora_rank;
  const MatrixRef keys = cache_of(rows, cache_NX_, model_.seq_len);
  AttentionShape shape = attention_shape(model_, 1);
  shape.q_len = rows.num_rows;
  shape.kv_len = keys.rows;
  shape.num_kv_heads = 1;
  shape.head_dim = R + model_.qk_rope_head_dim;
  shape.value_dim = R;
  const AttentionWindow window{first_keys_of(rows, first_T), {}};
  ctx.kernels.attention_forward(
      ctx.stream, {shape, {}, queries_tX, keys, cols_of(keys, 0, R), latents_tX, {}, window});
}

void CachedLatentAttention::make_queries(Ctx& ctx, const SlotMemory& m, const MatrixRef& q_TQ,
                                         const MatrixRef& queries_tX) const {
  const int64_t R = model_.kv_lora_rank, P = model_.qk_rope_head_dim, D = model_.head_dim;
  for (int64_t head = 0; head < model_.heads; ++head) {
    const MatrixRef q = cols_of(q_TQ, head * (D + P), D + P);
    const MatrixRef query = cols_of(queries_tX, head * (R + P), R + P);
    multiply(ctx, {.form = MatmulForm::NN,
                   .a = cols_of(q, 0, D),
                   .b = rows_of(keys_up_, head * D, D),
                   .c = cols_of(query, 0, R)});
    keys_adapter_.add_transposed_product(ctx, m, cols_of(q, 0, D), head * D, cols_of(query, 0, R));
    ctx.kernels.copy_matrix(ctx.stream, {cols_of(q, D, P), cols_of(query, R, P)});
  }
}

void CachedLatentAttention::make_outputs(Ctx& ctx, const SlotMemory& m, const MatrixRef& latents_tX,
                                         const MatrixRef& o_TV) const {
  const int64_t R = model_.kv_lora_rank, V = model_.v_head_dim;
  for (int64_t head = 0; head < model_.heads; ++head) {
    multiply(ctx, {.form = MatmulForm::NT,
                   .a = cols_of(latents_tX, head * R, R),
                   .b = rows_of(values_up_, head * V, V),
                   .c = cols_of(o_TV, head * V, V)});
    values_adapter_.add_product(ctx, m, cols_of(latents_tX, head * R, R), head * V,
                                cols_of(o_TV, head * V, V));
  }
}

}  // namespace trireme
