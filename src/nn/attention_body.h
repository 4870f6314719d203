#pragma once

#include <memory>

#include "nn/context_attention.h"
#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "nn/query_window.h"

namespace trireme {

// o = softmax(scale q k^T) v, causal, of all keys or those of a window. Each tp rank has its own
// heads; each cp rank has its own tokens of every sequence. Legend: T tokens, H heads, Q columns of
// q or o, K columns of k or v.
class AttentionBody final : public OpBody {
 public:
  explicit AttentionBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  AttentionDropout dropout_of(const MicrobatchInfo& info) const;

  ModelShard model_;
  RngKey dropout_key_;
  std::unique_ptr<ContextAttention> over_contexts_;
  QueryWindow window_;
  MatrixAt q_TQ_, k_TK_, v_TK_, o_TQ_;
  MatrixAt do_TQ_, dq_TQ_, dk_TK_, dv_TK_;
  TensorAt lse_HT_, delta_HT_, max_H_;
};

}  // namespace trireme
