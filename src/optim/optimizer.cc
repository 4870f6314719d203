#include "optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/align.h"
#include "base/stochastic_rounding.h"
#include "memory/memory_plan.h"
#include "schema/norm_chunk.h"

namespace trireme {
namespace {

TensorRef flat(const TensorRef& tensor) {
  return {tensor.data, tensor.dtype, Shape{tensor ? tensor.num_elements() : 0}};
}

}  // namespace

// Binds gradient and parameter, without the optimizer state.
Optimizer::Param Optimizer::bind(const ChunkTables& chunk, const OwnedParam& owned,
                                 const OptimizerMemory& memory) const {
  const DType compute = chunk.tables.params.tensors().front().dtype;
  const auto grad = [&](int64_t begin) {
    const DType dtype = chunk.grad_dtype;
    return TensorRef{static_cast<char*>(memory.grads) + begin * size_of(dtype), dtype,
                     Shape{owned.count}};
  };
  Param param;
  if (owned.has_grad()) param.grad_N = grad(owned.grad_begin);
  if (owned.second_use_begin >= 0) param.second_use_N = grad(owned.second_use_begin);
  TensorRef own{nullptr, compute, Shape{0}};
  if (memory.params != nullptr) {
    own = {static_cast<char*>(memory.params) + owned.param_begin * size_of(compute), compute,
           Shape{owned.count}};
  }
  const bool own_master = !chunk.tables.optimizer.contains("master/" + owned.name);
  (own_master ? param.master_N : param.param_N) = own;
  param.norm_word = owned.norm_word;
  param.decay = owned.decay;
  param.balance_rate = owned.balance_rate;
  param.running_rate = owned.running_rate;
  param.is_frozen = owned.is_frozen;
  param.key = rng_key(seed_, "rounding/" + owned.name);
  param.clip_key = rng_key(seed_, "qk_clip/" + owned.name);
  param.box = box_elements(chunk.layouts[owned.param]);
  param.first = owned.first;
  const ParamSpec& spec = chunk.params[owned.param];
  param.logit_side = spec.logit_side;
  // The blocks of modules that look ahead count as layers behind the last one.
  const int64_t module = std::max<int64_t>(0, module_of(owned.name) - 1);
  param.layer = layer_of_unit(chunk.stage, spec.unit) + module;
  return param;
}

void Optimizer::add(const ChunkTables& chunk, const OptimizerMemory& memory) {
  const Frame state(chunk.tables.optimizer, memory.optimizer);
  for (const OwnedParam& owned : chunk.owned) {
    Param param = bind(chunk, owned, memory);
    param.is_in_file = !memory.staged.empty();
    if (!param.is_in_file) {
      if (!param.master_N) param.master_N = flat(state.at("master/" + owned.name));
      param.exp_avg_N = flat(state.find("exp_avg/" + owned.name));
      param.exp_avg_sq_N = flat(state.find("exp_avg_sq/" + owned.name));
    }
    if (owned.takes_muon) {
      const DType compute = chunk.tables.params.tensors().front().dtype;
      param.muon.emplace(chunk.matrices[owned.param], compute, memory.newton_schulz);
    }
    params_.push_back(std::move(param));
  }
  add_pieces(chunk, memory);
  if (memory.copies != nullptr) keep_copies(chunk, memory.copies);
}

void Optimizer::reserve(Group& tp) const {
  for (const Param& param : params_) {
    if (param.muon) param.muon->reserve(tp);
  }
}

// Call it directly after the parameters of the chunk were added.
void Optimizer::keep_copies(const ChunkTables& chunk, void* copies) {
  char* at = static_cast<char*>(copies);
  for (size_t i = params_.size() - chunk.owned.size(); i < params_.size(); ++i) {
    const Param& param = params_[i];
    if (!param.grad_N) continue;  // never changes
    for (const TensorRef& tensor :
         {param.master_N, param.exp_avg_N, param.exp_avg_sq_N, param.param_N}) {
      if (!tensor) continue;
      copied_.push_back({tensor, {at, tensor.dtype, tensor.shape}});
      at += aligned_bytes(tensor.bytes());
    }
  }
  TRIREME_CHECK(at - static_cast<char*>(copies) <= copies_bytes(chunk), "copies are planned");
}

void Optimizer::add_pieces(const ChunkTables& chunk, const OptimizerMemory& memory) {
  std::vector<std::vector<Param>> pieces(memory.staged.size());
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    for (const OffloadRun& run : chunk.pieces[piece].runs) {
      Param param = bind(chunk, chunk.owned[run.owned], memory);
      param = part_of_param(param, run.first, run.count);
      param.second_use_N = {};  // already joined when the norm was computed
      const auto staged = [&](int64_t at, DType dtype) {
        if (at < 0) return TensorRef{nullptr, dtype, Shape{0}};
        return TensorRef{static_cast<char*>(memory.staged[piece]) + at, dtype, Shape{run.count}};
      };
      const DType compute = chunk.tables.params.tensors().front().dtype;
      if (run.param >= 0)
        (run.master < 0 ? param.master_N : param.param_N) = staged(run.param, compute);
      if (!param.master_N) param.master_N = staged(run.master, DType::F32);
      const DType moment = state_dtype(config_.moment_dtype);
      param.exp_avg_N = staged(run.exp_avg, moment);
      param.exp_avg_sq_N = staged(run.exp_avg_sq, moment);
      pieces[piece].push_back(param);
    }
  }
  pieces_.push_back(std::move(pieces));
}

void Optimizer::squared_norms(Ctx& ctx, std::span<int64_t> words) const {
  for (const Param& param : params_) {
    if (param.second_use_N) ctx.kernels.add(ctx.stream, {param.second_use_N, param.grad_N});
    if (param.norm_word < 0 || param.balance_rate > 0.0 || param.running_rate > 0.0 ||
        param.is_frozen) {
      continue;
    }
    int64_t* first = words.data() + param.norm_word;
    if (norm_sum_ == NormSum::Exact) {
      ctx.kernels.exact_squared_norm(ctx.stream,
                                     {param.grad_N, {first, DType::I64, Shape{kExactNormWords}}});
      continue;
    }
    const int64_t num_chunks = num_norm_chunks(param.grad_N.num_elements());
    ctx.kernels.squared_norm(ctx.stream, {param.grad_N, {first, DType::F64, Shape{num_chunks}}});
  }
}

std::optional<double> Optimizer::grad_scale_of(const StepInput& input, StepOutput& output) const {
  const double carried = input.valid_tokens * input.loss_scale;
  output.grad_norm = std::sqrt(input.squared_norm) / carried;
  output.skipped = !std::isfinite(output.grad_norm);
  if (output.skipped || input.measures_only) return std::nullopt;
  const bool clipped = config_.clip_norm > 0.0 && output.grad_norm > config_.clip_norm;
  return (clipped ? config_.clip_norm / output.grad_norm : 1.0) / carried;
}

StepOutput Optimizer::update(Ctx& ctx, const StepInput& input) {
  StepOutput output;
  const std::optional<double> grad_scale = grad_scale_of(input, output);
  skips_ = !grad_scale;
  if (grad_scale) {
    update_all(ctx, input, *grad_scale);
    clip_logits(ctx, input.largest_logits);
  }
  if (grad_scale && !copy_target_.empty()) copies_made_();
  copy_target_ = {};
  return output;
}

void Optimizer::clip_logits(Ctx& ctx, std::span<const float> largest_logits) const {
  if (!qk_clip_) return;
  for (const Param& param : params_) {
    if (param.logit_side == LogitSide::None) continue;
    qk_clip_->scale(ctx,
                    {.side = param.logit_side,
                     .box = param.box,
                     .first = param.first,
                     .master_N = param.master_N,
                     .param_N = param.param_N,
                     .key = param.clip_key,
                     .update = uint64_t(num_updates_)},
                    largest_logits.subspan(size_t(param.layer * heads_), size_t(heads_)));
  }
}

void Optimizer::balance(Ctx& ctx, const Param& param) const {
  const float* count_E = param.grad_N.as<float>();
  const int64_t E = param.grad_N.num_elements();
  const double mean = std::accumulate(count_E, count_E + E, 0.0) / double(E);
  const float rate = static_cast<float>(param.balance_rate);
  for (int64_t e = 0; e < E; ++e) {
    if (count_E[e] == mean) continue;
    const float step = count_E[e] < mean ? rate : -rate;
    if (param.master_N.dtype == DType::F32) {
      param.master_N.as<float>()[e] += step;
      continue;
    }
    bf16& bias = param.master_N.as<bf16>()[e];
    const uint64_t element = uint64_t(param.box.in_whole(param.first + e));
    bias = round_stochastically(float(bias) + step,
                                rounding_word(param.key, uint64_t(num_updates_), element));
  }
  if (param.param_N) ctx.kernels.convert(ctx.stream, {param.master_N, param.param_N});
}

// Image nets are refused without fp32 masters (schema/run_config_validate.h) and with narrow sums.
void Optimizer::run_towards_mean(Ctx& ctx, const Param& param) const {
  const float* sum_C = param.grad_N.as<float>();
  float* running_C = param.master_N.as<float>();
  const float rate = static_cast<float>(param.running_rate);
  const float part = static_cast<float>(1.0 / num_microbatches_);
  for (int64_t c = 0; c < param.grad_N.num_elements(); ++c) {
    running_C[c] += rate * (sum_C[c] * part - running_C[c]);
  }
  if (param.param_N) ctx.kernels.convert(ctx.stream, {param.master_N, param.param_N});
}

void Optimizer::update_all(Ctx& ctx, const StepInput& input, double grad_scale) {
  ++num_updates_;
  lr_ = input.lr;
  num_microbatches_ = input.num_microbatches;
  grad_scale_ = grad_scale;
  const bool makes_copies = !copy_target_.empty();
  if (makes_copies) update_with_copies(ctx);
  for (size_t i = 0; i < params_.size(); ++i) {
    if (!params_[i].is_in_file && !(makes_copies && is_copied_[i])) update(ctx, params_[i]);
  }
}

// An attempt may be rolled back, so it makes no copies.
void Optimizer::attempt(Ctx& ctx, const StepInput& partial) {
  copy_target_ = {};
  StepOutput assumed;
  const std::optional<double> grad_scale = grad_scale_of(partial, assumed);
  is_attempted_ = grad_scale == 1.0 / (partial.valid_tokens * partial.loss_scale);
  if (!is_attempted_) return;
  copy(ctx, true);
  update_all(ctx, partial, *grad_scale);
}

bool Optimizer::attempt_holds(const StepInput& input) const {
  StepOutput ignored;
  return is_attempted_ && grad_scale_of(input, ignored) == grad_scale_;
}

StepOutput Optimizer::settle(Ctx& ctx, const StepInput& input) {
  StepOutput output;
  const std::optional<double> grad_scale = grad_scale_of(input, output);
  if (attempt_holds(input)) return output;
  if (is_attempted_) {
    copy(ctx, false);
    --num_updates_;
    ++num_rollbacks_;
  }
  if (grad_scale) update_all(ctx, input, *grad_scale);
  return output;
}

void Optimizer::copy(Ctx& ctx, bool to_copies) const {
  constexpr int64_t kTileBytes = 1 << 18;
  for (const Copied& copied : copied_) {
    char* to = static_cast<char*>((to_copies ? copied.copy_N : copied.tensor_N).data);
    const char* from = static_cast<const char*>((to_copies ? copied.tensor_N : copied.copy_N).data);
    const int64_t bytes = copied.tensor_N.bytes();
    ctx.stream.team().parallel_for((bytes + kTileBytes - 1) / kTileBytes, [&](int64_t tile, int) {
      const int64_t begin = tile * kTileBytes;
      std::memcpy(to + begin, from + begin, size_t(std::min(kTileBytes, bytes - begin)));
    });
  }
}

void Optimizer::update_piece(Ctx& ctx, int chunk, int piece) const {
  if (skips_) return;
  for (const Param& param : pieces_[size_t(chunk)][size_t(piece)]) update(ctx, param);
}

void Optimizer::update(Ctx& ctx, const Param& param) const {
  if (param.is_frozen) return;
  if (param.balance_rate > 0.0) return balance(ctx, param);
  if (param.running_rate > 0.0) return run_towards_mean(ctx, param);
  const double decay = param.decay ? config_.weight_decay : 0.0;
  const RoundingWords rounding{param.key, uint64_t(num_updates_), param.first, param.box};
  if (param.muon) {
    param.muon->update(ctx, {.grad_N = param.grad_N,
                             .momentum_N = param.exp_avg_N,
                             .master_N = param.master_N,
                             .param_N = param.param_N,
                             .lr = static_cast<float>(lr_),
                             .momentum = static_cast<float>(config_.muon_momentum),
                             .weight_decay = static_cast<float>(decay),
                             .grad_scale = static_cast<float>(grad_scale_),
                             .rounding = rounding});
    return;
  }
  if (config_.name == OptimizerKind::Sgd) {
    ctx.kernels.sgd(ctx.stream, {.grad_N = param.grad_N,
                                 .master_N = param.master_N,
                                 .momentum_N = param.exp_avg_N,
                                 .param_N = param.param_N,
                                 .lr = static_cast<float>(lr_),
                                 .momentum = static_cast<float>(config_.momentum),
                                 .weight_decay = static_cast<float>(decay),
                                 .grad_scale = static_cast<float>(grad_scale_),
                                 .rounding = rounding});
    return;
  }
  ctx.kernels.adamw(ctx.stream, adamw_args(param));
}

AdamWArgs Optimizer::adamw_args(const Param& param) const {
  const double t = static_cast<double>(num_updates_);
  return {.grad_N = param.grad_N,
          .master_N = param.master_N,
          .exp_avg_N = param.exp_avg_N,
          .exp_avg_sq_N = param.exp_avg_sq_N,
          .param_N = param.param_N,
          .lr = static_cast<float>(lr_),
          .beta1 = static_cast<float>(config_.beta1),
          .beta2 = static_cast<float>(config_.beta2),
          .eps = static_cast<float>(config_.eps),
          .weight_decay = static_cast<float>(param.decay ? config_.weight_decay : 0.0),
          .correction1 = static_cast<float>(1.0 - std::pow(config_.beta1, t)),
          .correction2 = static_cast<float>(1.0 - std::pow(config_.beta2, t)),
          .grad_scale = static_cast<float>(grad_scale_),
          .rounding = {param.key, uint64_t(num_updates_), param.first, param.box}};
}

}  // namespace trireme
