#pragma once

#include "nn/linear.h"
#include "nn/norm.h"

namespace trireme {

// y = x1 + dropout(act(norm(x1) W_up) W_down); with SwiGLU, act(u) = silu(gate) * up of the two
// halves of u. Legend: T tokens, C d_model, F d_ff, U up_width (F, or 2F with a gate).
struct MlpBlock {
  struct Params {
    Norm::Params norm;
    Linear::Params up;
    Linear::Params down;
    static Params bind(const ModelSpec& model, const Frame& frame, const std::string& layer);
  };
  struct Saved {
    MatrixRef x1_TC, h_TC, u_TU, a_TF, y_TC;
    Norm::Stats norm;
    MatrixRef p_TC;  // scratch: the projection before dropout; absent without dropout
  };
  struct Grads {
    MatrixRef dy_TC;  // incoming
    MatrixRef dp_TC;  // dy behind dropout; dy itself without dropout
    MatrixRef da_TF, du_TU, dh_TC;
    MatrixRef dx1_TC;  // outgoing
  };

  ModelSpec model;
  Norm norm;
  Linear up;
  Linear down;
  RngKey residual_dropout_key;

  static MlpBlock bind(const ModelSpec& model, const Frame& params, const std::string& layer,
                       uint64_t seed);

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  // Everything but the projection onto the residual: what backward needs and was not kept.
  void recompute_all(Ctx& ctx, const Saved& saved) const;
  void recompute_norm_and_activation(Ctx& ctx, const Saved& saved) const;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved,
                      const Grads& grads) const;
  void backward_weight(Ctx& ctx, const Saved& saved, const Grads& grads, const Params& dparams,
                       Write write) const;

 private:
  void activate(Ctx& ctx, MatrixRef u_TU, MatrixRef a_TF) const;
  void activate_backward(Ctx& ctx, MatrixRef da_TF, MatrixRef u_TU, MatrixRef du_TU) const;
};

}  // namespace trireme
