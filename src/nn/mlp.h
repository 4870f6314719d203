#pragma once

#include "graph/model_shard.h"
#include "nn/block_edge.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace trireme {

// y = x1 + dropout(act(norm(x1) W_up) W_down); with SwiGLU, act(u) = silu(gate) * up of the two
// halves of u. Each tp rank has its own hidden units. Legend: T tokens (on the residual stream this
// rank's part of them; "full": all, where that differs), C d_model, F d_ff, U up_width (F, or 2F
// with a gate).
struct MlpBlock {
  struct Params {
    Norm::Params norm;
    Linear::Params up;
    Linear::Params down;
    static Params bind(const ModelShard& model, const Frame& frame, const std::string& layer);
  };
  struct Saved {
    MatrixRef x1_TC, h_TC, u_TU, a_TF, y_TC;
    Norm::Stats norm;
    MatrixRef h_full_TC;   // scratch; h itself where the residual stream has all tokens
    MatrixRef partial_TC;  // scratch: the projection's addends; likewise y itself
  };
  struct Grads {
    MatrixRef dy_TC;  // incoming
    MatrixRef dp_TC;  // dy behind dropout; dy itself without dropout
    MatrixRef dp_full_TC;
    MatrixRef da_TF, du_TU;
    MatrixRef dh_full_TC;  // scratch: the addends of dh
    MatrixRef dh_TC;
    MatrixRef dx1_TC;  // outgoing
  };

  ModelShard model;
  Norm norm;
  Linear up;
  Linear down;
  RngKey residual_dropout_key;
  BlockEdge edge;

  static MlpBlock bind(const ModelShard& model, const Frame& params, const std::string& layer,
                       uint64_t seed, const SumScratch& sums = {});

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  // Everything but the projection onto the residual: what backward needs and was not kept.
  void recompute_all(Ctx& ctx, const Saved& saved) const;
  void recompute_norm_and_activation(Ctx& ctx, const Saved& saved) const;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved,
                      const Grads& grads) const;
  void backward_weight(Ctx& ctx, const Saved& saved, const Grads& grads, const Params& dparams,
                       Write write) const;

 private:
  void gather(Ctx& ctx, const Saved& saved) const;
  void activate(Ctx& ctx, MatrixRef u_TU, MatrixRef a_TF) const;
  void activate_backward(Ctx& ctx, MatrixRef da_TF, MatrixRef u_TU, MatrixRef du_TU) const;
};

}  // namespace trireme
