#pragma once

#include "kernels/attention/attention.h"
#include "nn/ctx.h"
#include "tensor/matrix.h"

namespace trireme {

// What causal attention reads and writes of this rank's tokens, whose sequences may lie on several
// ranks. Legend: T this rank's tokens of all sequences, H heads, Q = H head_dim, K = kv heads
// head_dim.
struct ContextForward {
  AttentionDropout dropout;  // first_sample and first_head; positions are the chunks'
  MatrixRef q_TQ, k_TK, v_TK;
  MatrixRef out_TQ;  // written
  TensorRef lse_HT;  // written; read by the same rank's backward alone
  Documents documents;
  TensorRef max_H = {};  // of this rank's heads: AttentionForwardArgs::max_H; absent: not asked for
};

struct ContextBackward {
  AttentionDropout dropout;
  MatrixRef q_TQ, k_TK, v_TK, out_TQ, dout_TQ;
  TensorRef lse_HT;
  TensorRef delta_HT;             // scratch
  MatrixRef dq_TQ, dk_TK, dv_TK;  // written
  Documents documents;
};

// How attention reaches the keys of its queries (ContextStrategy).
class ContextAttention {
 public:
  virtual ~ContextAttention() = default;
  virtual void forward(Ctx& ctx, const ContextForward& args) const = 0;
  virtual void backward(Ctx& ctx, const ContextBackward& args) const = 0;
};

}  // namespace trireme
