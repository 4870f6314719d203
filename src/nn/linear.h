#pragma once

#include "nn/ctx.h"
#include "tensor/matrix.h"

namespace trireme {

// y_TF = x_TC w_FC^T + b_F.
struct Linear {
  struct Params {
    MatrixRef w_FC;
    TensorRef b_F;  // absent: no bias
  };
  Params params;

  // With a residual, y = residual + x w^T + b, rounded once.
  void forward(Ctx& ctx, MatrixRef x_TC, MatrixRef y_TF, MatrixRef residual_TF = {}) const;
  void backward_input(Ctx& ctx, MatrixRef dy_TF, MatrixRef dx_TC) const;
  static void backward_weight(Ctx& ctx, MatrixRef dy_TF, MatrixRef x_TC, const Params& grads,
                              Write write);
};

}  // namespace trireme
