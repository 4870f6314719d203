#pragma once

#include "nn/context_attention.h"
#include "nn/ring_pairs.h"

namespace trireme {

class Frame;

// Causal attention whose sequences lie over the ranks of a group, each in two chunks
// (ContextChunks). Every rank keeps its queries; keys and values go round the ring while they are
// attended to, and the results over each rank's keys are merged online. Backward, the gradients of
// keys and values go round behind them and end where they began. Legend: T this rank's tokens of
// all sequences, L of one, H heads, D head_dim, O width of a head of values, K kv heads, Q = H
// max(D, O), W = K D + K O: keys, then values.
class RingAttention final : public ContextAttention {
 public:
  // `local`: of this rank's tokens (q_len = kv_len = chunks.local_len()). Nothing in the scratch is
  // kept between calls.
  RingAttention(const AttentionShape& local, const ContextChunks& chunks, const Frame& scratch);

  void forward(Ctx& ctx, const ContextForward& args) const override;
  void backward(Ctx& ctx, const ContextBackward& args) const override;

 private:
  AttentionWindow own_window(const Documents& documents) const;
  AttentionDropout own_dropout(const AttentionDropout& dropout) const;
  void pack(Ctx& ctx, const MatrixRef& k_TK, const MatrixRef& v_TK) const;
  void attend(Ctx& ctx, const ContextForward& f, const ContextChunks& owner,
              const RingPairs::Pair& pair, const MatrixRef& kv_TW, const MatrixRef& lse_HT) const;
  void differentiate_own(Ctx& ctx, const ContextBackward& b) const;
  void differentiate(Ctx& ctx, const ContextBackward& b, const ContextChunks& owner,
                     const RingPairs::Pair& pair, const MatrixRef& kv_TW) const;
  void add_gradients(Ctx& ctx, const RingPairs::Pair& pair, const MatrixRef& dkv_TW) const;
  MatrixRef keys(const MatrixRef& kv_TW) const { return cols_of(kv_TW, 0, key_width()); }
  MatrixRef values(const MatrixRef& kv_TW) const {
    return cols_of(kv_TW, key_width(), kv_TW.cols - key_width());
  }
  int64_t key_width() const { return local_.num_kv_heads * local_.head_dim; }
  // Queries or their gradients, and outputs, where both have room.
  MatrixRef queries(const MatrixRef& x_TQ) const {
    return cols_of(x_TQ, 0, local_.num_heads * local_.head_dim);
  }
  MatrixRef outputs(const MatrixRef& x_TQ) const {
    return cols_of(x_TQ, 0, local_.num_heads * local_.out_dim());
  }

  RingPairs pairs_;
  AttentionShape local_;
  ContextChunks chunks_;
  MatrixRef kv_TW_[2];   // of the rank whose turn it is, and of the next
  MatrixRef dkv_TW_[2];  // fp32, behind them
  MatrixRef sum_TQ_;     // fp32: out, or dq
  MatrixRef part_LQ_, part_LW_;
  TensorRef part_lse_HL_, part_delta_HL_;
};

}  // namespace trireme
