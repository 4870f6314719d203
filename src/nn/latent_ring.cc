#include "nn/latent_ring.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "graph/op_tensors.h"
#include "nn/context_attention.h"
#include "nn/product.h"
#include "nn/ring_step.h"

namespace trireme {

LatentRing::LatentRing(const OpBinding& b)
    : model_(b.model()),
      dropout_key_(b.key_of(b.op().name + ".dropout")),
      window_(b),
      pairs_(attention_shape(b.model(), b.shape().micro_sequences), b.model().chunks),
      w_UR_(b.weight()),
      q_TQ_(b.input(0)),
      latent_TR_(b.input(1)),
      shared_TP_(b.input(2)),
      o_TV_(b.output()),
      do_TV_(b.output_grad()),
      dq_TQ_(b.input_grad(0)),
      dlatent_TR_(b.input_grad(1)),
      dshared_TP_(b.input_grad(2)),
      own_TX_(b.matrix_of(b.op().name + ".latents_TX")),
      dw_UR_(b.matrix_of(b.op().name + ".dw_UR")),
      dw_(b.matrix_grad_parts(b.first_param(true))),
      lse_HT_(b.tensor(b.op().name + ".lse_HT")),
      max_H_(b.of_module(kLargestLogits)),
      latents_TX_{matrix(b.scratch().at("ring.latents_TX[0]")),
                  matrix(b.scratch().at("ring.latents_TX[1]"))},
      dlatents_TX_{matrix(b.scratch().at("ring.dlatents_TX[0]")),
                   matrix(b.scratch().at("ring.dlatents_TX[1]"))},
      kv_LW_(matrix(b.scratch().at("ring.kv_LW"))),
      up_LU_(matrix(b.scratch().at("ring.up_LU"))),
      sum_TQ_(matrix(b.scratch().at("ring.sum_TQ"))),
      part_LQ_(matrix(b.scratch().at("ring.part_LQ"))),
      part_LW_(matrix(b.scratch().at("ring.part_LW"))),
      part_lse_HL_(b.scratch().at("ring.part_lse_HL")),
      part_delta_HL_(b.scratch().at("ring.part_delta_HL")) {
  for (const size_t input : {size_t{0}, size_t{1}, size_t{2}}) {
    TRIREME_CHECK(!b.input_grad_addend(input), "only attention reads its queries and latents");
  }
}

AttentionDropout LatentRing::dropout_of(const MicrobatchInfo& info) const {
  return {info.training ? static_cast<float>(model_.dropout) : 0.0f, dropout_key_,
          info.first_sample, uint64_t(model_.first_head)};
}

void LatentRing::expand(Ctx& ctx, const MatrixRef& latents_nX, const MatrixRef& kv_nW) const {
  const MatrixRef up_nU = rows_of(up_LU_, 0, latents_nX.rows);
  multiply(ctx, {.form = MatmulForm::NT, .a = latent(latents_nX), .b = w_UR_, .c = up_nU});
  for (int64_t head = 0; head < model_.kv_heads; ++head) {
    ctx.kernels.copy_matrix(ctx.stream, {made_key(up_nU, head), own_part(kv_nW, head)});
    ctx.kernels.copy_matrix(ctx.stream, {shared(latents_nX), shared_part(kv_nW, head)});
  }
  ctx.kernels.copy_matrix(ctx.stream, {made_values(up_nU), values(kv_nW)});
}

// From the gradients of the pair's keys and values to those of their latents and of the weights.
void LatentRing::contract(Ctx& ctx, const RingPairs::Pair& pair, const MatrixRef& latents_nX,
                          Sums& sums) const {
  const MatrixRef dkv_nW = rows_of(part_LW_, 0, pair.num_keys);
  const MatrixRef dup_nU = rows_of(up_LU_, 0, pair.num_keys);
  const MatrixRef dlatents_nX = rows_of(sums.dlatents_TX, pairs_.key_row(pair), pair.num_keys);
  const Write write = pair.is_causal ? Write::Overwrite : Write::Accumulate;
  for (int64_t head = 0; head < model_.kv_heads; ++head) {
    ctx.kernels.copy_matrix(ctx.stream, {own_part(dkv_nW, head), made_key(dup_nU, head)});
    ctx.kernels.copy_matrix(ctx.stream, {shared_part(dkv_nW, head), shared(dlatents_nX),
                                         head == 0 ? write : Write::Accumulate});
  }
  ctx.kernels.copy_matrix(ctx.stream, {values(dkv_nW), made_values(dup_nU)});
  multiply(
      ctx,
      {.form = MatmulForm::NN, .a = dup_nU, .b = w_UR_, .c = latent(dlatents_nX), .write = write});
  for (const MatrixGradPart& part : dw_) {
    multiply(ctx, {.form = MatmulForm::TN,
                   .a = cols_of(dup_nU, part.row, part.grad.rows),
                   .b = latent(latents_nX),
                   .c = rows_of(sums.dw_UR, part.row, part.grad.rows),
                   .write = sums.is_first ? Write::Overwrite : Write::Accumulate});
  }
  sums.is_first = false;
}

void LatentRing::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  Group& cp = ctx.cp;
  const ContextChunks& chunks = pairs_.chunks();
  TRIREME_CHECK(cp.size() == chunks.cp && cp.rank() == chunks.rank, "the chunks are this rank's");
  const MatrixRef q_TQ = m(q_TQ_), own_TX = m(own_TX_), o_TV = m(o_TV_);
  const TensorRef max_H = m(max_H_);
  if (max_H) {
    std::fill_n(max_H.as<float>(), max_H.num_elements(), -std::numeric_limits<float>::infinity());
  }
  ctx.kernels.copy_matrix(ctx.stream, {m(latent_TR_), latent(own_TX)});
  ctx.kernels.copy_matrix(ctx.stream, {m(shared_TP_), shared(own_TX)});
  const ContextForward f{.dropout = dropout_of(info),
                         .q_TQ = q_TQ,
                         .k_TK = {},
                         .v_TK = {},
                         .out_TQ = o_TV,
                         .lse_HT = m(lse_HT_),
                         .documents = window_(info, m, q_TQ.rows),
                         .max_H = max_H};
  for (int step = 0; step < cp.size(); ++step) {
    const MatrixRef& latents_TX = latents_at(step, own_TX);
    std::optional<RingStep> transfer;
    if (step + 1 < cp.size()) {
      transfer.emplace(cp, latents_TX, latents_TX_[(step + 1) % 2], RingStep::kKeysTag);
    }
    for (int64_t s = 0; s < pairs_.local().num_sequences; ++s) {
      attend(ctx, f, step, s, latents_TX);
    }
    if (transfer) transfer->wait();
  }
  ctx.kernels.copy_matrix(ctx.stream, {outputs(sum_TQ_), o_TV});
}

void LatentRing::attend(Ctx& ctx, const ContextForward& f, int step, int64_t sequence,
                        const MatrixRef& latents_TX) const {
  const ContextChunks owner = pairs_.owner_at(step);
  const RingPairs::Pair pair = pairs_.pair_of(owner, sequence);
  const int64_t row = pairs_.query_row(pair), count = pair.num_queries, heads = model_.heads;
  const MatrixRef kv_nW = rows_of(kv_LW_, 0, pair.num_keys);
  expand(ctx, rows_of(latents_TX, pairs_.key_row(pair), pair.num_keys), kv_nW);
  const MatrixRef part = rows_of(outputs(part_LQ_), 0, count);
  ctx.kernels.attention_forward(ctx.stream,
                                {pairs_.shape_of(pair), pairs_.dropout_of(f.dropout, owner, pair),
                                 rows_of(f.q_TQ, row, count), keys(kv_nW), values(kv_nW), part,
                                 flat_statistic(part_lse_HL_, heads, count),
                                 pairs_.window_of(f.documents, owner, pair), f.max_H});
  const MatrixRef part_lse = statistic_by_head(part_lse_HL_, heads, count);
  const MatrixRef sum = rows_of(outputs(sum_TQ_), row, count);
  const MatrixRef lse = cols_of(statistic_by_head(f.lse_HT, heads, f.q_TQ.rows), row, count);
  if (step == 0) {
    ctx.kernels.copy_matrix(ctx.stream, {part, sum});
    ctx.kernels.copy_matrix(ctx.stream, {part_lse, lse});
  } else {
    ctx.kernels.attention_merge(ctx.stream, {heads, part, part_lse, sum, lse});
  }
}

void LatentRing::backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  Group& cp = ctx.cp;
  const MatrixRef q_TQ = m(q_TQ_), own_TX = m(own_TX_);
  const ContextBackward b{.dropout = dropout_of(info),
                          .q_TQ = q_TQ,
                          .k_TK = {},
                          .v_TK = {},
                          .out_TQ = m(o_TV_),
                          .dout_TQ = m(do_TV_),
                          .lse_HT = m(lse_HT_),
                          .delta_HT = {},
                          .dq_TQ = {},
                          .dk_TK = {},
                          .dv_TK = {},
                          .documents = window_(info, m, q_TQ.rows)};
  Sums sums{.dlatents_TX = {}, .dw_UR = m(dw_UR_)};
  for (int step = 0; step < cp.size(); ++step) {
    const MatrixRef& latents_TX = latents_at(step, own_TX);
    sums.dlatents_TX = dlatents_TX_[step % 2];
    std::optional<RingStep> transfer, gradients;
    if (step + 1 < cp.size()) {
      transfer.emplace(cp, latents_TX, latents_TX_[(step + 1) % 2], RingStep::kKeysTag);
    }
    if (step > 0) {
      gradients.emplace(cp, dlatents_TX_[(step + 1) % 2], sums.dlatents_TX,
                        RingStep::kGradientsTag);
    }
    for (int64_t s = 0; s < pairs_.local().num_sequences; ++s) {
      const RingPairs::Pair pair = pairs_.pair_of(pairs_.owner_at(step), s);
      differentiate(ctx, b, step, s, latents_TX);
      if (s == 0 && gradients) gradients->wait();  // not before this rank adds to them
      contract(ctx, pair, rows_of(latents_TX, pairs_.key_row(pair), pair.num_keys), sums);
    }
    if (transfer) transfer->wait();
  }
  // One step more, and the gradients are home.
  const MatrixRef& home_TX = dlatents_TX_[cp.size() % 2];
  RingStep(cp, dlatents_TX_[(cp.size() + 1) % 2], home_TX, RingStep::kGradientsTag).wait();
  ctx.kernels.copy_matrix(ctx.stream, {queries(sum_TQ_), m(dq_TQ_)});
  ctx.kernels.copy_matrix(ctx.stream, {latent(home_TX), m(dlatent_TR_)});
  ctx.kernels.copy_matrix(ctx.stream, {shared(home_TX), m(dshared_TP_)});
}

// The pair's part of dq goes to the sum, and that of its keys and values to part_LW_.
void LatentRing::differentiate(Ctx& ctx, const ContextBackward& b, int step, int64_t sequence,
                               const MatrixRef& latents_TX) const {
  const ContextChunks owner = pairs_.owner_at(step);
  const RingPairs::Pair pair = pairs_.pair_of(owner, sequence);
  const int64_t row = pairs_.query_row(pair), count = pair.num_queries, heads = model_.heads;
  const MatrixRef kv_nW = rows_of(kv_LW_, 0, pair.num_keys);
  const MatrixRef dkv_nW = rows_of(part_LW_, 0, pair.num_keys);
  expand(ctx, rows_of(latents_TX, pairs_.key_row(pair), pair.num_keys), kv_nW);
  const MatrixRef lse = cols_of(statistic_by_head(b.lse_HT, heads, b.q_TQ.rows), row, count);
  ctx.kernels.copy_matrix(ctx.stream, {lse, statistic_by_head(part_lse_HL_, heads, count)});
  ctx.kernels.attention_backward(
      ctx.stream,
      {pairs_.shape_of(pair), pairs_.dropout_of(b.dropout, owner, pair),
       rows_of(b.q_TQ, row, count), keys(kv_nW), values(kv_nW), rows_of(b.out_TQ, row, count),
       rows_of(b.dout_TQ, row, count), flat_statistic(part_lse_HL_, heads, count),
       flat_statistic(part_delta_HL_, heads, count), rows_of(queries(part_LQ_), 0, count),
       keys(dkv_nW), values(dkv_nW), pairs_.window_of(b.documents, owner, pair)});
  ctx.kernels.copy_matrix(
      ctx.stream, {rows_of(queries(part_LQ_), 0, count), rows_of(queries(sum_TQ_), row, count),
                   step == 0 ? Write::Overwrite : Write::Accumulate});
}

void LatentRing::backward_weight(Ctx& ctx, const MicrobatchInfo&, const SlotMemory& m,
                                 Write write) const {
  for (const MatrixGradPart& part : dw_) {
    ctx.kernels.copy_matrix(ctx.stream,
                            {rows_of(m(dw_UR_), part.row, part.grad.rows), m(part.grad), write});
  }
}

}  // namespace trireme
