#include "nn/attention_body.h"

#include <cmath>

namespace trireme {

AttentionBody::AttentionBody(const OpBinding& b)
    : model_(b.model()),
      dropout_key_(b.key_of(b.op().name + ".dropout")),
      q_TQ_(b.input(0)),
      k_TK_(b.input(1)),
      v_TK_(b.input(2)),
      o_TQ_(b.output()),
      do_TQ_(b.output_grad()),
      dq_TQ_(b.input_grad(0)),
      dk_TK_(b.input_grad(1)),
      dv_TK_(b.input_grad(2)),
      lse_HT_(b.tensor(b.op().name + ".lse_HT")),
      delta_HT_(b.tensor(b.op().name + ".delta_HT")) {
  const AttentionShape local = shape_of({b.shape().micro_sequences});
  const Frame scratch = b.scratch();
  if (scratch.contains("ring.sum_TQ")) ring_.emplace(local, model_.chunks, scratch);
  if (scratch.contains("heads.send_TX")) all_to_all_.emplace(local, model_.chunks, scratch);
}

AttentionShape AttentionBody::shape_of(const MicrobatchInfo& info) const {
  return {info.num_sequences,
          model_.local_len(),
          model_.local_len(),
          model_.heads,
          model_.kv_heads,
          model_.head_dim,
          1.0f / std::sqrt(static_cast<float>(model_.head_dim))};
}

AttentionDropout AttentionBody::dropout_of(const MicrobatchInfo& info) const {
  return {info.training ? static_cast<float>(model_.dropout) : 0.0f, dropout_key_,
          info.first_sample, uint64_t(model_.first_head)};
}

void AttentionBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const MatrixRef q = m(q_TQ_), k = m(k_TK_), v = m(v_TK_), o = m(o_TQ_);
  const TensorRef lse_HT = m(lse_HT_);
  const ContextForward over_contexts{dropout_of(info), q, k, v, o, lse_HT};
  if (ring_) return ring_->forward(ctx, over_contexts);
  if (all_to_all_) return all_to_all_->forward(ctx, over_contexts);
  ctx.kernels.attention_forward(ctx.stream, {shape_of(info), dropout_of(info), q, k, v, o, lse_HT});
}

void AttentionBody::backward_input(Ctx& ctx, const MicrobatchInfo& info,
                                   const SlotMemory& m) const {
  const MatrixRef q = m(q_TQ_), k = m(k_TK_), v = m(v_TK_), o = m(o_TQ_), d_o = m(do_TQ_);
  const MatrixRef dq = m(dq_TQ_), dk = m(dk_TK_), dv = m(dv_TK_);
  const TensorRef lse_HT = m(lse_HT_), delta_HT = m(delta_HT_);
  const ContextBackward over_contexts{dropout_of(info), q,        k,  v,  o, d_o,
                                      lse_HT,           delta_HT, dq, dk, dv};
  if (ring_) return ring_->backward(ctx, over_contexts);
  if (all_to_all_) return all_to_all_->backward(ctx, over_contexts);
  ctx.kernels.attention_backward(ctx.stream, {shape_of(info), dropout_of(info), q, k, v, o, d_o,
                                              lse_HT, delta_HT, dq, dk, dv});
}

}  // namespace trireme
