#include "nn/residual.h"

namespace trireme {

void project_onto_residual(Ctx& ctx, const MicrobatchInfo& info, const Linear& linear, RngKey key,
                           const ModelSpec& model, MatrixRef x_TF, MatrixRef residual_TC,
                           MatrixRef p_TC, MatrixRef y_TC) {
  if (model.dropout == 0.0 || !info.training) {
    linear.forward(ctx, x_TF, y_TC, residual_TC);
    return;
  }
  linear.forward(ctx, x_TF, p_TC);
  ctx.kernels.dropout(ctx.stream, {p_TC, residual_TC, y_TC, static_cast<float>(model.dropout), key,
                                   info.first_sample, model.seq_len});
}

void residual_dropout_backward(Ctx& ctx, const MicrobatchInfo& info, RngKey key,
                               const ModelSpec& model, MatrixRef dy_TC, MatrixRef dp_TC) {
  if (model.dropout == 0.0) return;
  ctx.kernels.dropout(
      ctx.stream,
      {dy_TC, {}, dp_TC, static_cast<float>(model.dropout), key, info.first_sample, model.seq_len});
}

}  // namespace trireme
