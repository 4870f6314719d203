#include "optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

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

void Optimizer::add(const ChunkTables& chunk, const OptimizerMemory& memory) {
  const Frame state(chunk.tables.optimizer, memory.optimizer);
  const DType compute = chunk.tables.params.tensors().front().dtype;
  const auto grad = [&](int64_t begin, int64_t count) {
    return TensorRef{static_cast<float*>(memory.grads) + begin, DType::F32, Shape{count}};
  };
  for (const OwnedParam& owned : chunk.owned) {
    Param param;
    param.grad_N = grad(owned.grad_begin, owned.count);
    if (owned.second_use_begin >= 0) {
      param.second_use_N = grad(owned.second_use_begin, owned.count);
    }
    param.exp_avg_N = flat(state.find("exp_avg/" + owned.name));
    param.exp_avg_sq_N = flat(state.find("exp_avg_sq/" + owned.name));
    const TensorRef own{static_cast<char*>(memory.params) + owned.param_begin * size_of(compute),
                        compute, Shape{owned.count}};
    const bool own_master = !state.contains("master/" + owned.name);
    param.master_N = own_master ? own : flat(state.at("master/" + owned.name));
    if (!own_master) param.param_N = own;
    param.norm_chunk = owned.norm_chunk;
    param.decay = owned.decay;
    param.balance_rate = owned.balance_rate;
    params_.push_back(param);
  }
}

void Optimizer::squared_norms(Ctx& ctx, std::span<double> partials_P) const {
  for (const Param& param : params_) {
    if (param.second_use_N) ctx.kernels.add(ctx.stream, {param.second_use_N, param.grad_N});
    if (param.norm_chunk < 0 || param.balance_rate > 0.0) continue;
    const int64_t num_chunks = num_norm_chunks(param.grad_N.num_elements());
    const TensorRef out{partials_P.data() + param.norm_chunk, DType::F64, Shape{num_chunks}};
    ctx.kernels.squared_norm(ctx.stream, {param.grad_N, out});
  }
}

StepOutput Optimizer::update(Ctx& ctx, const StepInput& input) {
  StepOutput output;
  output.grad_norm = std::sqrt(input.squared_norm) / input.valid_tokens;
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

void Optimizer::balance(Ctx& ctx, const Param& param) const {
  const float* count_E = param.grad_N.as<float>();
  float* bias_E = param.master_N.as<float>();
  const int64_t E = param.grad_N.num_elements();
  const double mean = std::accumulate(count_E, count_E + E, 0.0) / double(E);
  const float rate = static_cast<float>(param.balance_rate);
  for (int64_t e = 0; e < E; ++e) {
    if (count_E[e] != mean) bias_E[e] += count_E[e] < mean ? rate : -rate;
  }
  if (param.param_N) ctx.kernels.convert(ctx.stream, {param.master_N, param.param_N});
}

void Optimizer::update(Ctx& ctx, const Param& param, double lr, double grad_scale) const {
  if (param.balance_rate > 0.0) return balance(ctx, param);
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
