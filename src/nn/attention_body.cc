#include "nn/attention_body.h"

#include <algorithm>
#include <limits>

#include "graph/op_placement.h"
#include "graph/op_tensors.h"
#include "nn/all_to_all_attention.h"
#include "nn/ring_attention.h"

namespace trireme {
namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

// Attention of sequences that lie whole on this rank.
class WholeAttention final : public ContextAttention {
 public:
  explicit WholeAttention(const AttentionShape& shape) : shape_(shape) {}

  void forward(Ctx& ctx, const ContextForward& f) const override {
    ctx.kernels.attention_forward(ctx.stream, {shape_,
                                               f.dropout,
                                               f.q_TQ,
                                               f.k_TK,
                                               f.v_TK,
                                               f.out_TQ,
                                               f.lse_HT,
                                               {f.documents.first_T},
                                               f.max_H});
  }
  void backward(Ctx& ctx, const ContextBackward& b) const override {
    ctx.kernels.attention_backward(ctx.stream, {shape_,
                                                b.dropout,
                                                b.q_TQ,
                                                b.k_TK,
                                                b.v_TK,
                                                b.out_TQ,
                                                b.dout_TQ,
                                                b.lse_HT,
                                                b.delta_HT,
                                                b.dq_TQ,
                                                b.dk_TK,
                                                b.dv_TK,
                                                {b.documents.first_T}});
  }

 private:
  AttentionShape shape_;
};

std::unique_ptr<ContextAttention> context_attention(const OpBinding& b) {
  const ModelShard& model = b.model();
  const AttentionShape local = attention_shape(model, b.shape().micro_sequences);
  switch (context_strategy(b.shape())) {
    case ContextStrategy::WholeSequences:
      break;
    case ContextStrategy::Ring:
      return std::make_unique<RingAttention>(local, model.chunks, b.scratch());
    case ContextStrategy::AllToAll:
      return std::make_unique<AllToAllAttention>(local, model.chunks, b.scratch());
  }
  return std::make_unique<WholeAttention>(local);
}

}  // namespace

AttentionBody::AttentionBody(const OpBinding& b)
    : model_(b.model()),
      dropout_key_(b.key_of(b.op().name + ".dropout")),
      over_contexts_(context_attention(b)),
      window_(b),
      q_TQ_(b.input(0)),
      k_TK_(b.input(1)),
      v_TK_(b.input(2)),
      o_TQ_(b.output()),
      do_TQ_(b.output_grad()),
      dq_TQ_(b.input_grad(0)),
      dk_TK_(b.input_grad(1)),
      dv_TK_(b.input_grad(2)),
      lse_HT_(b.tensor(b.op().name + ".lse_HT")),
      delta_HT_(b.tensor(b.op().name + ".delta_HT")),
      max_H_(b.of_module(kLargestLogits)) {}

AttentionDropout AttentionBody::dropout_of(const MicrobatchInfo& info) const {
  return {info.training ? static_cast<float>(model_.dropout) : 0.0f, dropout_key_,
          info.first_sample, uint64_t(model_.first_head)};
}

void AttentionBody::forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const {
  const TensorRef max_H = m(max_H_);
  if (max_H) std::fill_n(max_H.as<float>(), max_H.num_elements(), kNoLogit);
  const MatrixRef q_TQ = m(q_TQ_);
  over_contexts_->forward(ctx, {dropout_of(info), q_TQ, m(k_TK_), m(v_TK_), m(o_TQ_), m(lse_HT_),
                                window_(info, m, q_TQ.rows), max_H});
}

void AttentionBody::backward_input(Ctx& ctx, const MicrobatchInfo& info,
                                   const SlotMemory& m) const {
  const MatrixRef q_TQ = m(q_TQ_);
  over_contexts_->backward(
      ctx, {dropout_of(info), q_TQ, m(k_TK_), m(v_TK_), m(o_TQ_), m(do_TQ_), m(lse_HT_),
            m(delta_HT_), m(dq_TQ_), m(dk_TK_), m(dv_TK_), window_(info, m, q_TQ.rows)});
}

}  // namespace trireme
