#pragma once

#include "nn/linear.h"
#include "nn/norm.h"
#include "spec/model_layout.h"

namespace trireme {

// The rotary table of the positions 0 .. S-1 (absent: learned positions).
struct RopeTable {
  TensorRef cos_SD;
  TensorRef sin_SD;
};

// x1 = x + dropout(attention(rope(norm(x) Wqkv)) Wo), causal.
// Each tp rank has its own heads. Legend: T tokens (on the residual stream this rank's part of
// them; "full": all, where that differs), C d_model, D qkv_width, Q q_width, H heads.
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

  static AttentionBlock bind(const ModelShard& model, const Frame& params, const std::string& layer,
                             const RopeTable& rope, uint64_t seed);

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  // The norm alone, where its output was not kept.
  void recompute_norm(Ctx& ctx, const Saved& saved) const;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved,
                      const Grads& grads) const;
  void backward_weight(Ctx& ctx, const Saved& saved, const Grads& grads, const Params& dparams,
                       Write write) const;

 private:
  AttentionShape shape_of(const MicrobatchInfo& info) const;
  AttentionDropout dropout_of(const MicrobatchInfo& info) const;
  void gather(Ctx& ctx, const Saved& saved) const;
  void rotate(Ctx& ctx, Rotation rotation, MatrixRef qkv_TD) const;
};

}  // namespace trireme
