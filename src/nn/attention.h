#pragma once

#include "nn/linear.h"
#include "nn/norm.h"

namespace trireme {

// The rotary table of the positions 0 .. S-1 (absent: learned positions).
struct RopeTable {
  TensorRef cos_SD;
  TensorRef sin_SD;
};

// x1 = x + dropout(attention(rope(norm(x) Wqkv)) Wo), causal.
// Legend: T tokens, C d_model, D qkv_width, Q q_width, H heads.
struct AttentionBlock {
  struct Params {
    Norm::Params norm;
    Linear::Params qkv;
    Linear::Params out;
    static Params bind(const ModelSpec& model, const Frame& frame, const std::string& layer);
  };
  struct Saved {
    MatrixRef x_TC, h_TC, qkv_TD, o_TQ, x1_TC;
    Norm::Stats norm;
    TensorRef lse_HT;
    MatrixRef p_TC;  // scratch: the projection before dropout; absent without dropout
  };
  struct Grads {
    MatrixRef dx1_TC;  // incoming
    MatrixRef dp_TC;   // dx1 behind dropout; dx1 itself without dropout
    MatrixRef do_TQ, dqkv_TD, dh_TC;
    MatrixRef dx_TC;  // outgoing
    TensorRef delta_HT;
  };

  ModelSpec model;
  Norm norm;
  Linear qkv;
  Linear out;
  RopeTable rope;
  RngKey attention_dropout_key;
  RngKey residual_dropout_key;

  static AttentionBlock bind(const ModelSpec& model, const Frame& params, const std::string& layer,
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
  void rotate(Ctx& ctx, Rotation rotation, MatrixRef qkv_TD) const;
};

}  // namespace trireme
