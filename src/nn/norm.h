#pragma once

#include "nn/ctx.h"
#include "nn/frame.h"
#include "spec/model_spec.h"

namespace trireme {

// LayerNorm or RMSNorm over the last dim.
struct Norm {
  struct Params {
    TensorRef gain_C;  // absent: 1
    TensorRef bias_C;  // absent: 0
  };
  struct Stats {
    TensorRef mean_T;  // LayerNorm only
    TensorRef rstd_T;
  };
  NormKind kind = NormKind::Layer;
  float eps = 1e-5f;
  Params params;

  static Norm bind(const ModelSpec& model, const Frame& params, const std::string& name);
  static Params bind_params(const Frame& frame, const std::string& name);

  void forward(Ctx& ctx, MatrixRef x_TC, MatrixRef y_TC, const Stats& stats) const;
  // dx = dresidual + the norm's own gradient; dresidual may be absent, or dx itself.
  void backward_input(Ctx& ctx, MatrixRef dy_TC, MatrixRef x_TC, const Stats& stats,
                      MatrixRef dresidual_TC, MatrixRef dx_TC) const;
  void backward_weight(Ctx& ctx, MatrixRef dy_TC, MatrixRef x_TC, const Stats& stats,
                       const Params& grads, Write write) const;
};

}  // namespace trireme
