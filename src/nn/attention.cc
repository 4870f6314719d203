#include "nn/attention.h"

#include <cmath>

#include "nn/residual.h"

namespace trireme {

AttentionBlock::Params AttentionBlock::Params::bind(const ModelShard& model, const Frame& frame,
                                                    const std::string& layer) {
  return {Norm::bind_params(frame, layer + "norm1"),
          {frame.stacked_rows(layer + "attn.wq", model.qkv_width()),
           frame.stacked(layer + "attn.bq", model.qkv_width())},
          {matrix(frame.at(layer + "attn.wo")), frame.find(layer + "attn.bo")}};
}

AttentionBlock AttentionBlock::bind(const ModelShard& model, const Frame& params,
                                    const std::string& layer, const RopeTable& rope, uint64_t seed,
                                    const SumScratch& sums) {
  const Params bound = Params::bind(model, params, layer);
  return {model,
          Norm::bind(model, params, layer + "norm1"),
          {bound.qkv, {}, sums.over_slices, model.qkv_blocks()},
          {bound.out, sums.over_slices},
          rope,
          rng_key(seed, layer + "attn.dropout"),
          rng_key(seed, layer + "attn.residual_dropout"),
          BlockEdge::bind(model, sums.edge_RC),
          {},
          {}};
}

AttentionShape AttentionBlock::shape_of(const MicrobatchInfo& info) const {
  return {info.num_sequences,
          model.local_len(),
          model.local_len(),
          model.heads,
          model.kv_heads,
          model.head_dim,
          1.0f / std::sqrt(static_cast<float>(model.head_dim))};
}

AttentionDropout AttentionBlock::dropout_of(const MicrobatchInfo& info) const {
  return {info.training ? static_cast<float>(model.dropout) : 0.0f, attention_dropout_key,
          info.first_sample, uint64_t(model.first_head)};
}

void AttentionBlock::rotate(Ctx& ctx, Rotation rotation, MatrixRef qkv_TD) const {
  if (!rope.cos_SD) return;
  // Queries and keys lie side by side and turn by the same table.
  const MatrixRef qk_T = cols_of(qkv_TD, 0, model.q_width() + model.kv_width());
  ctx.kernels.rope(
      ctx.stream, {rotation, qk_T, model.head_dim, rope.cos_SD, rope.sin_SD, model.local_len(), 0});
}

void AttentionBlock::gather(Ctx& ctx, const Saved& s) const {
  redistribute_tokens(ctx, enter_block(model.residual), s.h_full_TC.rows, s.h_TC, s.h_full_TC);
}

void AttentionBlock::attend(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  const MatrixRef q = q_of(s.qkv_TD), k = k_of(s.qkv_TD), v = v_of(s.qkv_TD);
  const ContextForward over_contexts{dropout_of(info), q, k, v, s.o_TQ, s.lse_HT};
  if (ring) return ring->forward(ctx, over_contexts);
  if (all_to_all) return all_to_all->forward(ctx, over_contexts);
  ctx.kernels.attention_forward(ctx.stream,
                                {shape_of(info), dropout_of(info), q, k, v, s.o_TQ, s.lse_HT});
}

void AttentionBlock::differentiate(Ctx& ctx, const MicrobatchInfo& info, const Saved& s,
                                   const Grads& g) const {
  const MatrixRef q = q_of(s.qkv_TD), k = k_of(s.qkv_TD), v = v_of(s.qkv_TD);
  const MatrixRef dq = q_of(g.dqkv_TD), dk = k_of(g.dqkv_TD), dv = v_of(g.dqkv_TD);
  const ContextBackward over_contexts{dropout_of(info), q,          k,  v,  s.o_TQ, g.do_TQ,
                                      s.lse_HT,         g.delta_HT, dq, dk, dv};
  if (ring) return ring->backward(ctx, over_contexts);
  if (all_to_all) return all_to_all->backward(ctx, over_contexts);
  ctx.kernels.attention_backward(ctx.stream, {shape_of(info), dropout_of(info), q, k, v, s.o_TQ,
                                              g.do_TQ, s.lse_HT, g.delta_HT, dq, dk, dv});
}

void AttentionBlock::forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& s) const {
  norm.forward(ctx, s.x_TC, s.h_TC, s.norm);
  edge.gather_and_multiply(ctx, enter_block(model.residual), s.h_TC, s.h_full_TC,
                           [&](int64_t begin, int64_t count) {
                             qkv.forward_rows(ctx, s.h_full_TC, s.qkv_TD, begin, count);
                           });
  rotate(ctx, Rotation::Forward, s.qkv_TD);
  attend(ctx, info, s);
  project_onto_residual(ctx, info, out, residual_dropout_key, model, edge, s.o_TQ, s.x_TC,
                        s.partial_TC, s.x1_TC);
}

void AttentionBlock::recompute_norm(Ctx& ctx, const Saved& s) const {
  norm.forward(ctx, s.x_TC, s.h_TC, s.norm);
}

void AttentionBlock::backward_input(Ctx& ctx, const MicrobatchInfo& info, const Saved& s,
                                    const Grads& g) const {
  residual_dropout_backward(ctx, info, residual_dropout_key, model, edge, g.dx1_TC, g.dp_TC,
                            g.dp_full_TC, [&](int64_t begin, int64_t count) {
                              out.backward_input_rows(ctx, g.dp_full_TC, g.do_TQ, begin, count);
                            });
  differentiate(ctx, info, s, g);
  rotate(ctx, Rotation::Inverse, g.dqkv_TD);
  edge.multiply_and_sum(
      ctx, backward_of(enter_block(model.residual)),
      [&](int64_t begin, int64_t count) {
        qkv.backward_input_rows(ctx, g.dqkv_TD, g.dh_full_TC, begin, count);
      },
      g.dh_full_TC, g.dh_TC);
  norm.backward_input(ctx, g.dh_TC, s.x_TC, s.norm, g.dx1_TC, g.dx_TC);
}

void AttentionBlock::backward_weight(Ctx& ctx, const Saved& s, const Grads& g,
                                     const Params& dparams, Write write) const {
  Linear::backward_weight(ctx, g.dp_full_TC, s.o_TQ, dparams.out, write);
  gather(ctx, s);
  Linear::backward_weight(ctx, g.dqkv_TD, s.h_full_TC, dparams.qkv, write);
  norm.backward_weight(ctx, g.dh_TC, s.x_TC, s.norm, dparams.norm, write);
}

}  // namespace trireme
