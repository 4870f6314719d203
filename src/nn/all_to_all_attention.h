#pragma once

#include <span>

#include "nn/context_attention.h"
#include "schema/context_chunks.h"

namespace trireme {

class Frame;

// Causal attention whose sequences lie over the ranks of a group (ContextChunks), each of which
// attends whole sequences with its part of the heads (DeepSpeed-Ulysses, Jacobs et al. 2023): an
// all-to-all takes every rank's tokens of q, k and v to the ranks of their heads, another one takes
// the results back. Every head is computed as on one rank, with the same bits. Needs heads and kv
// heads that the number of ranks divides. Legend: T this rank's tokens, N = cp T those of whole
// sequences, H this rank's heads of the latter.
class AllToAllAttention final : public ContextAttention {
 public:
  // `local`: of this rank's tokens and all heads (q_len = kv_len = chunks.local_len()). Nothing in
  // the scratch is kept between calls.
  AllToAllAttention(const AttentionShape& local, const ContextChunks& chunks, const Frame& scratch);

  void forward(Ctx& ctx, const ContextForward& args) const override;
  void backward(Ctx& ctx, const ContextBackward& args) const override;

 private:
  // The columns of an operand in scratch that holds several side by side.
  struct Operand {
    MatrixRef tokens_T;  // of all heads
    int64_t width;       // of one rank's heads
  };
  // From this rank's tokens to its heads, operands side by side in `heads_N`; and back.
  void to_heads(Ctx& ctx, std::span<const Operand> operands, const MatrixRef& heads_N) const;
  void to_tokens(Ctx& ctx, const MatrixRef& heads_N, std::span<const Operand> operands) const;
  template <typename Visit>
  void for_each_block(const MatrixRef& buffer, int64_t width, Visit&& visit) const;
  template <typename Visit>
  void for_each_chunk(int rank, const MatrixRef& block_TX, const MatrixRef& heads_N,
                      Visit&& visit) const;
  void exchange(Ctx& ctx, int64_t width) const;
  AttentionDropout dropout_of(const AttentionDropout& dropout) const;
  TensorRef of_heads(const TensorRef& statistic_HT) const;
  TensorRef max_of_heads(const TensorRef& max_H) const;
  MatrixRef q_of(const MatrixRef& heads_N) const { return cols_of(heads_N, 0, q_width_); }
  MatrixRef k_of(const MatrixRef& heads_N) const { return cols_of(heads_N, q_width_, k_width_); }
  MatrixRef v_of(const MatrixRef& heads_N) const {
    return cols_of(heads_N, q_width_ + k_width_, v_width_);
  }
  int64_t qkv_width() const { return q_width_ + k_width_ + v_width_; }

  AttentionShape whole_;  // this rank's heads of whole sequences
  ContextChunks chunks_;
  int64_t q_width_, k_width_, v_width_, out_width_;  // of this rank's heads
  MatrixRef send_, recv_;                            // blocks by rank, [T, width of the operands]
  MatrixRef heads_N_;                                // q, k, v, out, dout
  MatrixRef dheads_N_;                               // dq, dk, dv
};

}  // namespace trireme
