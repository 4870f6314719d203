#pragma once

#include <optional>

#include "graph/model_shard.h"
#include "nn/all_to_all_attention.h"
#include "nn/block_edge.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/ring_attention.h"

namespace trireme {

// The rotary table of the positions of a sequence's tokens (absent: learned positions).
struct RopeTable {
  TensorRef cos_SD;
  TensorRef sin_SD;
};

// x1 = x + dropout(attention(rope(norm(x) Wqkv)) Wo), causal.
// Each tp rank has its own heads; each cp rank has its own tokens of every sequence. Legend: T
// tokens (on the residual stream this rank's part of them; "full": all, where that differs), C
// d_model, D qkv_width, Q q_width, H heads.
struct AttentionBlock {
  struct Params {
    Norm::Params norm;
    Linear::Params qkv;
    Linear::Params out;
    static Params bind(const ModelShard& model, const Frame& frame, const std::string& layer);
  };
  struct Saved {
    MatrixRef x_TC, h_TC, qkv_TD, o_TQ, x1_TC;
    Norm::Stats norm;
    TensorRef lse_HT;
    MatrixRef h_full_TC;   // scratch; h itself where the residual stream has all tokens
    MatrixRef partial_TC;  // scratch: the projection's addends; likewise x1 itself
  };
  struct Grads {
    MatrixRef dx1_TC;  // incoming
    MatrixRef dp_TC;   // dx1 behind dropout; dx1 itself without dropout
    MatrixRef dp_full_TC;
    MatrixRef do_TQ, dqkv_TD;
    MatrixRef dh_full_TC;  // scratch: the addends of dh
    MatrixRef dh_TC;
    MatrixRef dx_TC;  // outgoing
    TensorRef delta_HT;
  };

  ModelShard model;
  Norm norm;
  Linear qkv;
  Linear out;
  RopeTable rope;
  RngKey attention_dropout_key;
  RngKey residual_dropout_key;
  BlockEdge edge;
  // Where sequences lie over several ranks, one of these.
  std::optional<RingAttention> ring;
  std::optional<AllToAllAttention> all_to_all;

  static AttentionBlock bind(const ModelShard& model, const Frame& params, const std::string& layer,
                             const RopeTable& rope, uint64_t seed, const SumScratch& sums = {});

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  // The norm alone, where its output was not kept.
  void recompute_norm(Ctx& ctx, const Saved& saved) const;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved,
                      const Grads& grads) const;
  void backward_weight(Ctx& ctx, const Saved& saved, const Grads& grads, const Params& dparams,
                       Write write) const;

  AttentionShape shape_of(const MicrobatchInfo& info) const;

 private:
  AttentionDropout dropout_of(const MicrobatchInfo& info) const;
  void attend(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  void differentiate(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved,
                     const Grads& grads) const;
  MatrixRef q_of(MatrixRef qkv_TD) const { return cols_of(qkv_TD, 0, model.q_width()); }
  MatrixRef k_of(MatrixRef qkv_TD) const {
    return cols_of(qkv_TD, model.q_width(), model.kv_width());
  }
  MatrixRef v_of(MatrixRef qkv_TD) const {
    return cols_of(qkv_TD, model.q_width() + model.kv_width(), model.kv_width());
  }
  void gather(Ctx& ctx, const Saved& saved) const;
  void rotate(Ctx& ctx, Rotation rotation, MatrixRef qkv_TD) const;
};

}  // namespace trireme
