#include "nn/ring_attention.h"

#include <optional>

#include "nn/frame.h"
#include "nn/positions.h"
#include "nn/ring_step.h"

namespace trireme {
namespace {

constexpr int kKeysTag = RingStep::kKeysTag;
constexpr int kGradientsTag = RingStep::kGradientsTag;

}  // namespace

RingAttention::RingAttention(const AttentionShape& local, const ContextChunks& chunks,
                             const Frame& scratch)
    : pairs_(local, chunks),
      local_(local),
      chunks_(chunks),
      kv_TW_{matrix(scratch.at("ring.kv_TW[0]")), matrix(scratch.at("ring.kv_TW[1]"))},
      dkv_TW_{matrix(scratch.at("ring.dkv_TW[0]")), matrix(scratch.at("ring.dkv_TW[1]"))},
      sum_TQ_(matrix(scratch.at("ring.sum_TQ"))),
      part_LQ_(matrix(scratch.at("ring.part_LQ"))),
      part_LW_(matrix(scratch.at("ring.part_LW"))),
      part_lse_HL_(scratch.at("ring.part_lse_HL")),
      part_delta_HL_(scratch.at("ring.part_delta_HL")) {}

AttentionWindow RingAttention::own_window(const Documents& documents) const {
  return {documents.first_T, positions_of(chunks_)};
}

AttentionDropout RingAttention::own_dropout(const AttentionDropout& dropout) const {
  AttentionDropout result = dropout;
  result.queries = result.keys = positions_of(chunks_);
  return result;
}

void RingAttention::pack(Ctx& ctx, const MatrixRef& k_TK, const MatrixRef& v_TK) const {
  ctx.kernels.copy_matrix(ctx.stream, {k_TK, keys(kv_TW_[0])});
  ctx.kernels.copy_matrix(ctx.stream, {v_TK, values(kv_TW_[0])});
}

void RingAttention::forward(Ctx& ctx, const ContextForward& f) const {
  Group& cp = ctx.cp;
  TRIREME_CHECK(cp.size() == chunks_.cp && cp.rank() == chunks_.rank, "the chunks are this rank's");
  pack(ctx, f.k_TK, f.v_TK);
  const MatrixRef lse_HT = statistic_by_head(f.lse_HT, local_.num_heads, f.q_TQ.rows);
  for (int step = 0; step < cp.size(); ++step) {
    const MatrixRef &kv_TW = kv_TW_[step % 2], &next_TW = kv_TW_[(step + 1) % 2];
    std::optional<RingStep> transfer;
    if (step + 1 < cp.size()) transfer.emplace(cp, kv_TW, next_TW, kKeysTag);
    if (step == 0) {
      ctx.kernels.attention_forward(
          ctx.stream, {local_, own_dropout(f.dropout), f.q_TQ, f.k_TK, f.v_TK, f.out_TQ, f.lse_HT,
                       own_window(f.documents), f.max_H});
      ctx.kernels.copy_matrix(ctx.stream, {f.out_TQ, outputs(sum_TQ_)});
    } else {
      const ContextChunks owner = pairs_.owner_at(step);
      for (int64_t s = 0; s < local_.num_sequences; ++s) {
        attend(ctx, f, owner, pairs_.pair_of(owner, s), kv_TW, lse_HT);
      }
    }
    if (transfer) transfer->wait();
  }
  ctx.kernels.copy_matrix(ctx.stream, {outputs(sum_TQ_), f.out_TQ});
}

void RingAttention::attend(Ctx& ctx, const ContextForward& f, const ContextChunks& owner,
                           const RingPairs::Pair& pair, const MatrixRef& kv_TW,
                           const MatrixRef& lse_HT) const {
  const int64_t row = pairs_.query_row(pair);
  const MatrixRef kv = rows_of(kv_TW, pairs_.key_row(pair), pair.num_keys);
  const MatrixRef part = rows_of(outputs(part_LQ_), 0, pair.num_queries);
  ctx.kernels.attention_forward(ctx.stream,
                                {pairs_.shape_of(pair), pairs_.dropout_of(f.dropout, owner, pair),
                                 rows_of(f.q_TQ, row, pair.num_queries), keys(kv), values(kv), part,
                                 flat_statistic(part_lse_HL_, local_.num_heads, pair.num_queries),
                                 pairs_.window_of(f.documents, owner, pair), f.max_H});
  ctx.kernels.attention_merge(
      ctx.stream,
      {local_.num_heads, part, statistic_by_head(part_lse_HL_, local_.num_heads, pair.num_queries),
       rows_of(outputs(sum_TQ_), row, pair.num_queries), cols_of(lse_HT, row, pair.num_queries)});
}

void RingAttention::backward(Ctx& ctx, const ContextBackward& b) const {
  Group& cp = ctx.cp;
  TRIREME_CHECK(cp.size() == chunks_.cp && cp.rank() == chunks_.rank, "the chunks are this rank's");
  pack(ctx, b.k_TK, b.v_TK);
  for (int step = 0; step < cp.size(); ++step) {
    const MatrixRef &kv_TW = kv_TW_[step % 2], &next_TW = kv_TW_[(step + 1) % 2];
    const MatrixRef &dkv_TW = dkv_TW_[step % 2], &before_TW = dkv_TW_[(step + 1) % 2];
    std::optional<RingStep> transfer;
    if (step + 1 < cp.size()) transfer.emplace(cp, kv_TW, next_TW, kKeysTag);
    if (step == 0) {
      differentiate_own(ctx, b);
    } else {
      RingStep gradients(cp, before_TW, dkv_TW, kGradientsTag);
      const ContextChunks owner = pairs_.owner_at(step);
      for (int64_t s = 0; s < local_.num_sequences; ++s) {
        const RingPairs::Pair pair = pairs_.pair_of(owner, s);
        differentiate(ctx, b, owner, pair, kv_TW);
        if (s == 0) gradients.wait();  // not before this rank adds to them
        add_gradients(ctx, pair, dkv_TW);
      }
    }
    if (transfer) transfer->wait();
  }
  // One step more, and the gradients are home.
  const MatrixRef& home_TW = dkv_TW_[cp.size() % 2];
  RingStep(cp, dkv_TW_[(cp.size() + 1) % 2], home_TW, kGradientsTag).wait();
  ctx.kernels.copy_matrix(ctx.stream, {queries(sum_TQ_), b.dq_TQ});
  ctx.kernels.copy_matrix(ctx.stream, {keys(home_TW), b.dk_TK});
  ctx.kernels.copy_matrix(ctx.stream, {values(home_TW), b.dv_TK});
}

void RingAttention::differentiate_own(Ctx& ctx, const ContextBackward& b) const {
  ctx.kernels.attention_backward(
      ctx.stream, {local_, own_dropout(b.dropout), b.q_TQ, b.k_TK, b.v_TK, b.out_TQ, b.dout_TQ,
                   b.lse_HT, b.delta_HT, b.dq_TQ, b.dk_TK, b.dv_TK, own_window(b.documents)});
  ctx.kernels.copy_matrix(ctx.stream, {b.dq_TQ, queries(sum_TQ_)});
  ctx.kernels.copy_matrix(ctx.stream, {b.dk_TK, keys(dkv_TW_[0])});
  ctx.kernels.copy_matrix(ctx.stream, {b.dv_TK, values(dkv_TW_[0])});
}

// The pair's part of dq, dk and dv.
void RingAttention::differentiate(Ctx& ctx, const ContextBackward& b, const ContextChunks& owner,
                                  const RingPairs::Pair& pair, const MatrixRef& kv_TW) const {
  const int64_t row = pairs_.query_row(pair), count = pair.num_queries;
  const MatrixRef kv = rows_of(kv_TW, pairs_.key_row(pair), pair.num_keys);
  const MatrixRef part_kv = rows_of(part_LW_, 0, pair.num_keys);
  const MatrixRef lse_HT = statistic_by_head(b.lse_HT, local_.num_heads, b.q_TQ.rows);
  ctx.kernels.copy_matrix(ctx.stream, {cols_of(lse_HT, row, count),
                                       statistic_by_head(part_lse_HL_, local_.num_heads, count)});
  ctx.kernels.attention_backward(
      ctx.stream,
      {pairs_.shape_of(pair), pairs_.dropout_of(b.dropout, owner, pair),
       rows_of(b.q_TQ, row, count), keys(kv), values(kv), rows_of(b.out_TQ, row, count),
       rows_of(b.dout_TQ, row, count), flat_statistic(part_lse_HL_, local_.num_heads, count),
       flat_statistic(part_delta_HL_, local_.num_heads, count),
       rows_of(queries(part_LQ_), 0, count), keys(part_kv), values(part_kv),
       pairs_.window_of(b.documents, owner, pair)});
  ctx.kernels.copy_matrix(ctx.stream, {rows_of(queries(part_LQ_), 0, count),
                                       rows_of(queries(sum_TQ_), row, count), Write::Accumulate});
}

void RingAttention::add_gradients(Ctx& ctx, const RingPairs::Pair& pair,
                                  const MatrixRef& dkv_TW) const {
  const int64_t row = pairs_.key_row(pair);
  ctx.kernels.copy_matrix(ctx.stream, {rows_of(part_LW_, 0, pair.num_keys),
                                       rows_of(dkv_TW, row, pair.num_keys), Write::Accumulate});
}

}  // namespace trireme
