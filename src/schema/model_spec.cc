#include "schema/model_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/align.h"
#include "base/input_limits.h"
#include "schema/image_net.h"
#include "schema/model_rules.h"
#include "schema/param_patterns.h"
#include "schema/stage_shape.h"

namespace trireme {
namespace {

NormType norm_of(const ModelConfig& config) {
  const bool is_default = config.norm == NormChoice::Default;
  const bool is_layer_norm =
      is_default ? config.family == ModelFamily::Gpt2 : config.norm == NormChoice::LayerNorm;
  return is_layer_norm ? NormType::LayerNorm : NormType::RmsNorm;
}

MlpType mlp_of(const ModelConfig& config) {
  switch (config.activation) {
    case ActivationChoice::Default:
      return config.family == ModelFamily::Gpt2 ? MlpType::GeluTanh : MlpType::Swiglu;
    case ActivationChoice::GeluTanh:
      return MlpType::GeluTanh;
    case ActivationChoice::GeluErf:
      return MlpType::GeluErf;
    case ActivationChoice::Relu:
      return MlpType::Relu;
    case ActivationChoice::Relu2:
      return MlpType::Relu2;
    case ActivationChoice::Swiglu:
      return MlpType::Swiglu;
  }
  return MlpType::Swiglu;
}

bool has_rope(const ModelConfig& config) {
  const bool is_default = config.positions == PositionsChoice::Default;
  return is_default ? config.family != ModelFamily::Gpt2
                    : config.positions == PositionsChoice::Rope;
}

// Products of sizes that validation refuses do not overflow, either.
int64_t default_d_ff(const ModelConfig& config, MlpType mlp) {
  const int64_t d_model = std::clamp<int64_t>(config.d_model, 0, limits::kWidth);
  return mlp == MlpType::Swiglu ? round_up(d_model * 8 / 3, 64) : 4 * d_model;
}

// As many hidden units as a token visits in a layer with experts.
int64_t default_dense_d_ff(const ModelConfig& config, const ModelSpec& model) {
  const auto bounded = [](int64_t count) { return std::clamp<int64_t>(count, 0, limits::kWidth); };
  const int64_t visited = bounded(config.top_k) + bounded(config.shared_experts);
  return std::min(visited, 4 * limits::kWidth / std::max<int64_t>(1, model.d_ff)) * model.d_ff;
}

// Names that are refused (schema/model_rules.h) stand for no matrix.
void add_adapters(const ModelConfig& config, ModelSpec& model) {
  if (config.lora_rank <= 0) return;
  model.lora_rank = config.lora_rank;
  model.lora_scale = config.lora_alpha == 0.0 ? 2.0 : config.lora_alpha / double(config.lora_rank);
  if (config.lora_targets == "all") {
    for (const LoraTarget target : kLoraTargets) {
      if (model.has_target(target)) model.lora_targets.add(target);
    }
    return;
  }
  const Result<LoraTargets> targets = parse_lora_targets(config.lora_targets);
  if (targets.ok()) model.lora_targets = *targets;
}

// Layers in which other parameters are frozen are of other kinds, because they compute other
// gradients.
std::vector<LayerRun> split_by_frozen(std::vector<LayerRun> kinds, const ModelSpec& model) {
  if (model.frozen.empty()) return kinds;
  std::vector<LayerRun> split;
  std::vector<std::vector<std::string_view>> previous;
  for (const LayerRun& kind : kinds) {
    for (int64_t layer = kind.first; layer < kind.first + kind.count; ++layer) {
      std::vector<std::vector<std::string_view>> asked =
          remainders(model.frozen, fmt::format("layers.{}.", layer));
      if (layer == kind.first || asked != previous) split.push_back({int(split.size()), layer, 0});
      ++split.back().count;
      previous = std::move(asked);
    }
  }
  return split;
}

}  // namespace

bool ModelSpec::has_target(LoraTarget target) const {
  switch (target) {
    case LoraTarget::Q:
      return q_lora_rank == 0;
    case LoraTarget::K:
    case LoraTarget::V:
      return !has_latents();
    case LoraTarget::QA:
    case LoraTarget::QB:
      return q_lora_rank > 0;
    case LoraTarget::KvA:
    case LoraTarget::KvB:
      return has_latents();
    case LoraTarget::Gate:
      return mlp == MlpType::Swiglu;
    case LoraTarget::O:
    case LoraTarget::Up:
    case LoraTarget::Down:
      break;
  }
  return true;
}

ModelSpec with_defaults(const ModelConfig& config, int64_t data_vocab_size) {
  ModelSpec model;
  model.family = config.family;
  model.layers = config.layers;
  model.d_model = config.d_model;
  model.heads = config.heads;
  model.kv_heads = config.kv_heads == 0 ? config.heads : config.kv_heads;
  model.head_dim = config.head_dim != 0 ? config.head_dim
                   : config.heads > 0   ? config.d_model / config.heads
                                        : 0;
  model.v_head_dim = config.v_head_dim == 0 ? model.head_dim : config.v_head_dim;
  model.vocab_size = config.vocab_size == 0 ? data_vocab_size : config.vocab_size;
  model.seq_len = config.seq_len;
  model.norm = norm_of(config);
  model.mlp = mlp_of(config);
  model.rope = has_rope(config);
  model.d_ff = config.d_ff != 0 ? config.d_ff : default_d_ff(config, model.mlp);
  model.bias = config.bias && config.family == ModelFamily::Gpt2;
  model.norm_gain = config.norm_gain;
  model.parallel_block = config.parallel_block;
  model.layer_scale = config.layer_scale;
  model.embedding_norm = config.embedding_norm;
  model.final_norm = config.final_norm;
  model.tied_head = config.tied_head;
  model.norm_eps = config.norm_eps;
  model.dropout = config.dropout;
  model.init_stddev = config.init_stddev;
  model.init_scale_residual = config.init_scale_residual;
  model.rope_theta = config.rope_theta;
  model.rope_scaling = config.rope_scaling;
  model.rope_scaling_factor = config.rope_scaling_factor;
  model.rope_low_freq_factor = config.rope_low_freq_factor;
  model.rope_high_freq_factor = config.rope_high_freq_factor;
  model.rope_original_seq_len = config.rope_original_seq_len;
  model.rope_mscale = config.rope_mscale;
  model.qk_norm = config.qk_norm;
  model.window = config.window;
  model.kv_lora_rank = config.kv_lora_rank;
  model.q_lora_rank = config.q_lora_rank;
  model.qk_rope_head_dim = config.qk_rope_head_dim;
  if (config.index_top_k > 0) {
    model.index_top_k = config.index_top_k;
    model.index_heads = config.index_heads;
    model.index_head_dim = config.index_head_dim;
  }
  model.mtp_depth = config.mtp_depth;
  model.mtp_loss_weight = config.mtp_depth > 0 ? config.mtp_loss_weight : 0.0;
  add_adapters(config, model);
  if (reads_images(config.family)) make_image_net(config, model);
  if (config.family != ModelFamily::Moe) return model;
  model.router = config.router;
  model.experts = config.experts;
  model.held_experts = config.experts;
  model.top_k = config.top_k;
  model.shared_experts = config.shared_experts;
  model.dense_layers = config.dense_layers;
  if (config.dense_layers > 0) {
    model.dense_d_ff =
        config.dense_d_ff != 0 ? config.dense_d_ff : default_dense_d_ff(config, model);
  }
  model.expert_groups = config.expert_groups;
  model.top_groups = config.top_groups;
  model.routed_scaling = config.routed_scaling;
  model.capacity_factor = config.capacity_factor;
  model.aux_loss = config.aux_loss;
  model.z_loss = config.z_loss;
  model.balance_rate = config.balance_rate;
  return model;
}

Result<ModelSpec> resolve_model(const ModelConfig& config, int64_t data_vocab_size) {
  const RunConfig run{.model = config};
  ConfigRules rules(run);
  model_rules(rules, config);
  vocabulary_rules(rules, config, data_vocab_size);
  const std::vector<ConfigProblem> problems = rules.take();
  if (!problems.empty()) return usage(problems.front().message());
  return with_defaults(config, data_vocab_size);
}

Status check_runnable(const ModelSpec& model) {
  if (!model.has_indexer()) return Done{};
  return usage(fmt::format(
      "model.index_top_k = {}: no kernel chooses the keys of a query, so `trireme plan` prices "
      "this model, and no command trains, evaluates or samples it; set model.index_top_k = 0, with "
      "which a query sees all keys before it",
      model.index_top_k));
}

ModelSpec without_modules(ModelSpec model) {
  model.mtp_depth = 0;
  model.mtp_loss_weight = 0.0;
  return model;
}

int64_t module_of(std::string_view name) {
  constexpr std::string_view kStart = "mtp.";
  if (!name.starts_with(kStart)) return 0;
  int64_t module = 0;
  std::from_chars(name.data() + kStart.size(), name.data() + name.size(), module);
  return module + 1;
}

int most_slices(const ModelSpec& model) {
  int slices = 1;
  const auto divides = [](int64_t extent, int by) { return extent % by == 0; };
  while (2 * slices <= kMostSlices && divides(model.heads, 2 * slices) &&
         divides(model.kv_heads, 2 * slices) && divides(model.d_ff, 2 * slices) &&
         model.vocab_size >= 2 * slices) {
    slices *= 2;
  }
  return slices;
}

StageSpec whole_model(const ModelSpec& model) { return {0, model.layers, true, true}; }

bool ModelSpec::is_frozen(std::string_view param) const { return matches_any(frozen, param); }

std::vector<LayerRun> layer_kinds(const ModelSpec& model) {
  if (model.reads_images()) return split_by_frozen(kinds_of_blocks(model), model);
  const int64_t dense = model.has_experts() ? model.dense_layers : 0;
  if (dense == 0) return split_by_frozen({{0, 0, model.layers}}, model);
  return split_by_frozen({{0, 0, dense}, {1, dense, model.layers - dense}}, model);
}

std::vector<LayerRun> layer_runs(const ModelSpec& model, const StageSpec& stage) {
  return layer_runs(layer_kinds(model), stage);
}

std::vector<LayerRun> layer_runs(std::span<const LayerRun> kinds, const StageSpec& stage) {
  std::vector<LayerRun> runs;
  for (const LayerRun& kind : kinds) {
    const int64_t begin = std::max(kind.first, stage.first_layer);
    const int64_t end = std::min(kind.first + kind.count, stage.first_layer + stage.num_layers);
    if (begin < end) runs.push_back({kind.kind, begin, end - begin});
  }
  return runs;
}

std::vector<int64_t> content_of(const ModelSpec& model, const StageSpec& stage) {
  std::vector<int64_t> content = {stage.has_embedding, stage.has_head};
  for (const LayerRun& run : layer_runs(model, stage)) {
    content.insert(content.end(), {run.kind, run.count});
  }
  return content;
}

// YaRN (Peng et al. 2023) makes the softmax sharper as it stretches the context.
double ModelSpec::logit_scale() const {
  const double scale = 1.0 / std::sqrt(double(key_dim()));
  if (rope_scaling != RopeScaling::Yarn || rope_scaling_factor == 1.0) return scale;
  const double mscale = 0.1 * rope_mscale * std::log(rope_scaling_factor) + 1.0;
  return scale * mscale * mscale;
}

int64_t ModelSpec::expert_capacity(int64_t num_tokens) const {
  if (capacity_factor == 0.0) return num_tokens;
  const double even = double(num_tokens) * double(top_k) / double(experts);
  return std::clamp<int64_t>(int64_t(std::ceil(capacity_factor * even)), 1, num_tokens);
}

int64_t ModelSpec::expert_rows(int64_t num_tokens) const {
  return std::min(num_tokens * top_k, experts * expert_capacity(num_tokens));
}

}  // namespace trireme
