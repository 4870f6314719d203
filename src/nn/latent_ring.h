#pragma once

#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "nn/query_window.h"
#include "nn/ring_pairs.h"

namespace trireme {

struct ContextForward;
struct ContextBackward;

// Causal attention whose sequences lie over the ranks of a ring, and whose keys and values are
// products of a latent (graph/latent_ring.h). The latents go round the ring, with the part of the
// keys that all heads share. Every rank makes keys and values from them, one sequence at a time, in
// F and again in B. Backward, the gradients of the latents go round behind them; those of the
// weights are made in B, where the gradients of the keys and values are, and W adds them. Legend: T
// this rank's tokens of all sequences, L of one, n some of one, X a latent of R numbers and the
// shared part, U keys without the shared part and values as the product makes them, W keys and
// values as attention reads them, Q = heads max(D, O).
class LatentRing final : public OpBody {
 public:
  explicit LatentRing(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  // The gradients of each micro-batch are added to these.
  struct Sums {
    MatrixRef dlatents_TX;  // of the rank whose turn it is, fp32
    MatrixRef dw_UR;        // absent: no weight is trained
    bool is_first = true;   // nothing has been added yet
  };
  AttentionDropout dropout_of(const MicrobatchInfo& info) const;
  // The latents that are here after so many steps; this rank's own do not move.
  const MatrixRef& latents_at(int step, const MatrixRef& own_TX) const {
    return step == 0 ? own_TX : latents_TX_[step % 2];
  }
  void expand(Ctx& ctx, const MatrixRef& latents_nX, const MatrixRef& kv_nW) const;
  void contract(Ctx& ctx, const RingPairs::Pair& pair, const MatrixRef& latents_nX,
                Sums& sums) const;
  void attend(Ctx& ctx, const ContextForward& f, int step, int64_t sequence,
              const MatrixRef& latents_TX) const;
  void differentiate(Ctx& ctx, const ContextBackward& b, int step, int64_t sequence,
                     const MatrixRef& latents_TX) const;

  MatrixRef keys(const MatrixRef& x_nW) const { return cols_of(x_nW, 0, key_width()); }
  MatrixRef values(const MatrixRef& x_nW) const {
    return cols_of(x_nW, key_width(), x_nW.cols - key_width());
  }
  // These take one head: the keys without the shared part, as the product makes and attention reads
  // them, and the shared part.
  MatrixRef made_key(const MatrixRef& up_nU, int64_t head) const {
    return cols_of(up_nU, head * model_.head_dim, model_.head_dim);
  }
  MatrixRef own_part(const MatrixRef& x_nW, int64_t head) const {
    return cols_of(x_nW, head * model_.key_dim(), model_.head_dim);
  }
  MatrixRef shared_part(const MatrixRef& x_nW, int64_t head) const {
    return cols_of(x_nW, head * model_.key_dim() + model_.head_dim, model_.qk_rope_head_dim);
  }
  MatrixRef made_values(const MatrixRef& up_nU) const {
    const int64_t begin = model_.kv_heads * model_.head_dim;
    return cols_of(up_nU, begin, up_nU.cols - begin);
  }
  int64_t key_width() const { return model_.kv_heads * model_.key_dim(); }
  MatrixRef latent(const MatrixRef& x_nX) const { return cols_of(x_nX, 0, model_.kv_lora_rank); }
  MatrixRef shared(const MatrixRef& x_nX) const {
    return cols_of(x_nX, model_.kv_lora_rank, model_.qk_rope_head_dim);
  }
  MatrixRef queries(const MatrixRef& x_TQ) const {
    return cols_of(x_TQ, 0, model_.heads * model_.key_dim());
  }
  MatrixRef outputs(const MatrixRef& x_TQ) const {
    return cols_of(x_TQ, 0, model_.heads * model_.v_head_dim);
  }

  ModelShard model_;
  RngKey dropout_key_;
  QueryWindow window_;
  RingPairs pairs_;
  MatrixRef w_UR_;
  MatrixAt q_TQ_, latent_TR_, shared_TP_, o_TV_;
  MatrixAt do_TV_, dq_TQ_, dlatent_TR_, dshared_TP_;
  MatrixAt own_TX_, dw_UR_;
  std::vector<MatrixGradPart> dw_;
  TensorAt lse_HT_, max_H_;
  MatrixRef latents_TX_[2];   // of the rank whose turn it is, and of the next
  MatrixRef dlatents_TX_[2];  // fp32, behind them
  MatrixRef kv_LW_, up_LU_;
  MatrixRef sum_TQ_;  // fp32: out, or dq
  MatrixRef part_LQ_, part_LW_;
  TensorRef part_lse_HL_, part_delta_HL_;
};

}  // namespace trireme
