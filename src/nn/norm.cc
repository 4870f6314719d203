#include "nn/norm.h"

namespace trireme {

Norm Norm::bind(const ModelSpec& model, const Frame& params, const std::string& name) {
  return {model.norm == NormType::LayerNorm ? NormKind::Layer : NormKind::Rms,
          static_cast<float>(model.norm_eps), bind_params(params, name)};
}

Norm::Params Norm::bind_params(const Frame& frame, const std::string& name) {
  return {frame.find(name + ".gain"), frame.find(name + ".bias")};
}

void Norm::forward(Ctx& ctx, MatrixRef x_TC, MatrixRef y_TC, const Stats& stats) const {
  ctx.kernels.norm_forward(ctx.stream, {kind, eps, x_TC, params.gain_C, params.bias_C, y_TC,
                                        stats.mean_T, stats.rstd_T});
}

void Norm::backward_input(Ctx& ctx, MatrixRef dy_TC, MatrixRef x_TC, const Stats& stats,
                          MatrixRef dresidual_TC, MatrixRef dx_TC) const {
  ctx.kernels.norm_backward_input(ctx.stream, {kind, dy_TC, x_TC, params.gain_C, stats.mean_T,
                                               stats.rstd_T, dresidual_TC, dx_TC});
}

void Norm::backward_weight(Ctx& ctx, MatrixRef dy_TC, MatrixRef x_TC, const Stats& stats,
                           const Params& grads, Write write) const {
  if (!grads.gain_C) return;
  ctx.kernels.norm_backward_weight(ctx.stream, {kind, dy_TC, x_TC, stats.mean_T, stats.rstd_T,
                                                grads.gain_C, grads.bias_C, write});
}

}  // namespace trireme
