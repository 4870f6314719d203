#include "nn/linear.h"

namespace trireme {

void Linear::forward(Ctx& ctx, MatrixRef x_TC, MatrixRef y_TF, MatrixRef residual_TF) const {
  ctx.kernels.matmul(ctx.stream, {.form = MatmulForm::NT,
                                  .a = x_TC,
                                  .b = params.w_FC,
                                  .c = y_TF,
                                  .bias_N = params.b_F,
                                  .residual_MN = residual_TF});
}

void Linear::backward_input(Ctx& ctx, MatrixRef dy_TF, MatrixRef dx_TC) const {
  ctx.kernels.matmul(ctx.stream,
                     {.form = MatmulForm::NN, .a = dy_TF, .b = params.w_FC, .c = dx_TC});
}

void Linear::backward_weight(Ctx& ctx, MatrixRef dy_TF, MatrixRef x_TC, const Params& grads,
                             Write write) {
  ctx.kernels.matmul(
      ctx.stream, {.form = MatmulForm::TN, .a = dy_TF, .b = x_TC, .c = grads.w_FC, .write = write});
  if (grads.b_F) ctx.kernels.column_sum(ctx.stream, {dy_TF, grads.b_F, write});
}

}  // namespace trireme
