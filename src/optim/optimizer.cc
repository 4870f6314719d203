#include "optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/nearest_name.h"
#include "spec/norm_chunk.h"

namespace trireme {
namespace {

TensorRef flat(const TensorRef& tensor) {
  return {tensor.data, tensor.dtype, Shape{tensor ? tensor.num_elements() : 0}};
}

}  // namespace

Result<OptimizerKind> optimizer_kind(const OptimConfig& optim) {
  if (optim.name == "adamw") return OptimizerKind::AdamW;
  if (optim.name == "sgd") return OptimizerKind::Sgd;
  const std::string nearest = nearest_name(optim.name, {"adamw", "sgd"});
  return Error{ErrorKind::Usage,
               fmt::format("optim.name = \"{}\" is unknown; use adamw or sgd{}", optim.name,
                           nearest.empty() ? "" : " (did you mean " + nearest + "?)")};
}

OptimizerStateSpec optimizer_state_of(const OptimConfig& optim, OptimizerKind kind) {
  if (kind == OptimizerKind::AdamW) return {true, true};
  return {optim.momentum != 0.0, false};
}

Optimizer::Optimizer(const OptimConfig& config, OptimizerKind kind,
                     const std::vector<ParamSpec>& params, const Frame& param_frame,
                     const Frame& grads, const Frame& state, const Frame& step)
    : config_(config), kind_(kind) {
  const TensorRef partials_P = step.at("norm_partials_P");
  int64_t chunk = 0;
  for (const ParamSpec& spec : params) {
    Param param;
    param.grad_N = flat(grads.at(spec.name));
    param.exp_avg_N = flat(state.find("exp_avg/" + spec.name));
    param.exp_avg_sq_N = flat(state.find("exp_avg_sq/" + spec.name));
    const bool own_master = !state.contains("master/" + spec.name);
    param.master_N = flat(own_master ? param_frame.at(spec.name) : state.at("master/" + spec.name));
    if (!own_master) param.param_N = flat(param_frame.at(spec.name));
    const int64_t num_chunks = num_norm_chunks(spec.shape.num_elements());
    param.partials_P = {partials_P.as<double>() + chunk, DType::F64, Shape{num_chunks}};
    param.decay = spec.decay;
    chunk += num_chunks;
    params_.push_back(param);
  }
  if (grads.contains("embedding.tokens@head")) {
    head_use_VC_ = flat(grads.at("embedding.tokens@head"));
    table_VC_ = flat(grads.at("embedding.tokens"));
  }
}

StepOutput Optimizer::step(Ctx& ctx, const StepInput& input) {
  // The sums of a tied table's two uses are joined in this order: embedding, then head.
  if (head_use_VC_) ctx.kernels.add(ctx.stream, {head_use_VC_, table_VC_});
  StepOutput output;
  output.grad_norm = std::sqrt(squared_grad_norm(ctx)) / input.valid_tokens;
  if (!std::isfinite(output.grad_norm)) {
    output.skipped = true;
    return output;
  }
  const bool clipped = config_.clip_norm > 0.0 && output.grad_norm > config_.clip_norm;
  const double clip = clipped ? config_.clip_norm / output.grad_norm : 1.0;
  ++num_updates_;
  for (const Param& param : params_) update(ctx, param, input.lr, clip / input.valid_tokens);
  return output;
}

double Optimizer::squared_grad_norm(Ctx& ctx) {
  double sum = 0.0;
  for (const Param& param : params_) {
    ctx.kernels.squared_norm(ctx.stream, {param.grad_N, param.partials_P});
    const double* partials = param.partials_P.as<double>();
    for (int64_t i = 0; i < param.partials_P.num_elements(); ++i) sum += partials[i];
  }
  return sum;
}

void Optimizer::update(Ctx& ctx, const Param& param, double lr, double grad_scale) const {
  const double decay = param.decay ? config_.weight_decay : 0.0;
  if (kind_ == OptimizerKind::Sgd) {
    ctx.kernels.sgd(ctx.stream, {.grad_N = param.grad_N,
                                 .master_N = param.master_N,
                                 .momentum_N = param.exp_avg_N,
                                 .param_N = param.param_N,
                                 .lr = static_cast<float>(lr),
                                 .momentum = static_cast<float>(config_.momentum),
                                 .weight_decay = static_cast<float>(decay),
                                 .grad_scale = static_cast<float>(grad_scale)});
    return;
  }
  const double t = static_cast<double>(num_updates_);
  ctx.kernels.adamw(ctx.stream,
                    {.grad_N = param.grad_N,
                     .master_N = param.master_N,
                     .exp_avg_N = param.exp_avg_N,
                     .exp_avg_sq_N = param.exp_avg_sq_N,
                     .param_N = param.param_N,
                     .lr = static_cast<float>(lr),
                     .beta1 = static_cast<float>(config_.beta1),
                     .beta2 = static_cast<float>(config_.beta2),
                     .eps = static_cast<float>(config_.eps),
                     .weight_decay = static_cast<float>(decay),
                     .correction1 = static_cast<float>(1.0 - std::pow(config_.beta1, t)),
                     .correction2 = static_cast<float>(1.0 - std::pow(config_.beta2, t)),
                     .grad_scale = static_cast<float>(grad_scale)});
}

}  // namespace trireme
