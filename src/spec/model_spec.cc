#include "spec/model_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/align.h"
#include "base/input_limits.h"
#include "base/nearest_name.h"

namespace trireme {
namespace {

Error bad_value(const std::string& key, const std::string& value, const std::string& rule) {
  return {ErrorKind::Usage, fmt::format("{} = {} {}", key, value, rule)};
}

template <typename T>
struct Choice {
  const char* name;
  T value;
};

template <typename T, size_t N>
Result<T> choose(const std::string& key, const std::string& name, const Choice<T> (&choices)[N]) {
  std::vector<std::string> names;
  for (const Choice<T>& choice : choices) {
    if (name == choice.name) return choice.value;
    names.push_back(choice.name);
  }
  const std::string nearest = nearest_name(name, names);
  return bad_value(key, "\"" + name + "\"",
                   "is unknown; use " + fmt::format("{}", fmt::join(names, ", ")) +
                       (nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
}

Status check_positive(const ModelSpec& model) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"model.layers", model.layers},     {"model.d_model", model.d_model},
      {"model.heads", model.heads},       {"model.kv_heads", model.kv_heads},
      {"model.head_dim", model.head_dim}, {"model.d_ff", model.d_ff},
      {"model.seq_len", model.seq_len},
  };
  for (const auto& [key, value] : sizes) {
    if (value <= 0) return bad_value(key, std::to_string(value), "must be positive");
  }
  if (model.vocab_size <= 0) {
    return bad_value("model.vocab_size", std::to_string(model.vocab_size),
                     "must be positive: set it, or name a tokenizer in data.tokenizer");
  }
  return Done{};
}

// Refuses huge models before any table is made, because their tables would take too much time and
// memory. Sums are doubles, which do not overflow.
Status check_size(const ModelSpec& model) {
  const std::pair<const char*, std::pair<int64_t, int64_t>> sizes[] = {
      {"model.layers", {model.layers, limits::kLayers}},
      {"model.d_model", {model.d_model, limits::kWidth}},
      {"model.heads", {model.heads, limits::kWidth}},
      {"model.head_dim", {model.head_dim, limits::kWidth}},
      {"model.d_ff", {model.d_ff, 4 * limits::kWidth}},
      {"model.vocab_size", {model.vocab_size, limits::kVocabSize}},
      {"model.seq_len", {model.seq_len, limits::kSeqLen}},
      {"model.experts", {model.experts, limits::kWidth}},
      {"model.shared_experts", {model.shared_experts, limits::kWidth}},
  };
  for (const auto& [key, size] : sizes) {
    if (size.first <= size.second) continue;
    return bad_value(key, std::to_string(size.first),
                     fmt::format("must be at most {}", size.second));
  }
  const double of_heads = double(model.heads) * double(model.head_dim);
  if (of_heads > double(limits::kWidth)) {
    return bad_value("model.heads", std::to_string(model.heads),
                     fmt::format("heads of width {} are together wider than {}", model.head_dim,
                                 limits::kWidth));
  }
  const int64_t experts = model.has_experts() ? model.experts + model.shared_experts : 1;
  const int64_t of_layer = 16 + (model.has_experts() ? 3 * experts : 0);
  if (model.layers > limits::kModelTensors / of_layer) {
    return bad_value("model.layers", std::to_string(model.layers),
                     fmt::format("with {} experts each makes more than {} tensors", experts,
                                 limits::kModelTensors));
  }
  const double C = double(model.d_model);
  const double layer = 4.0 * C * of_heads + 3.0 * C * double(model.d_ff) * double(experts);
  const double all =
      double(model.layers) * layer + 2.0 * C * (double(model.vocab_size) + double(model.seq_len));
  if (all <= limits::kParameters) return Done{};
  return bad_value("model.d_model", std::to_string(model.d_model),
                   fmt::format("gives up to {:.1e} parameters; a model has at most {:.0e}: take "
                               "fewer layers, a smaller width or a smaller vocabulary",
                               all, limits::kParameters));
}

Status check_shapes(const ModelSpec& model) {
  if (model.heads % model.kv_heads != 0) {
    return bad_value("model.kv_heads", std::to_string(model.kv_heads),
                     fmt::format("must divide model.heads = {}", model.heads));
  }
  if (model.rope && model.head_dim % 2 != 0) {
    return bad_value("model.head_dim", std::to_string(model.head_dim),
                     "must be even for rotary positions");
  }
  if (!(model.dropout >= 0.0 && model.dropout < 1.0)) {
    return bad_value("model.dropout", fmt::format("{}", model.dropout), "must be in [0, 1)");
  }
  return Done{};
}

Status check_experts(const ModelSpec& model) {
  if (!model.has_experts()) return Done{};
  const auto refuse = [](const char* key, int64_t value, const std::string& rule) -> Status {
    return bad_value(key, std::to_string(value), rule);
  };
  const int64_t E = model.experts, groups = model.expert_groups;
  if (groups < 1 || E % groups != 0) {
    return refuse("model.expert_groups", groups, fmt::format("must divide model.experts = {}", E));
  }
  if (model.top_groups < 1 || model.top_groups > groups) {
    return refuse("model.top_groups", model.top_groups,
                  fmt::format("must be 1 to model.expert_groups = {}", groups));
  }
  const int64_t reachable = E / groups * model.top_groups;
  if (model.top_k < 1 || model.top_k > reachable) {
    return refuse("model.top_k", model.top_k,
                  fmt::format("must be 1 to {}, the experts that a token may visit", reachable));
  }
  if (model.shared_experts < 0) {
    return refuse("model.shared_experts", model.shared_experts, "must not be negative");
  }
  if (model.mlp != MlpType::Swiglu) {
    return Error{ErrorKind::Usage, "model.activation must be \"swiglu\" with experts"};
  }
  if (model.z_loss > 0.0 && model.router != RouterType::Softmax) {
    return Error{ErrorKind::Usage, "model.z_loss is a loss of model.router = \"softmax\""};
  }
  return Done{};
}

}  // namespace

Result<ModelSpec> resolve_model(const ModelConfig& config, int64_t tokenizer_vocab_size) {
  const bool llama = config.family != ModelFamily::Gpt2;
  ModelSpec model;
  model.family = config.family;
  model.layers = config.layers;
  model.d_model = config.d_model;
  model.heads = config.heads;
  model.kv_heads = config.kv_heads == 0 ? config.heads : config.kv_heads;
  if (config.head_dim == 0 && config.heads > 0 && config.d_model % config.heads != 0) {
    return bad_value("model.heads", std::to_string(config.heads),
                     fmt::format("must divide model.d_model = {}, or model.head_dim must be set",
                                 config.d_model));
  }
  model.head_dim = config.head_dim != 0 ? config.head_dim
                   : config.heads > 0   ? config.d_model / config.heads
                                        : 0;
  model.vocab_size = config.vocab_size == 0 ? tokenizer_vocab_size : config.vocab_size;
  if (tokenizer_vocab_size > model.vocab_size) {
    return bad_value(
        "model.vocab_size", std::to_string(model.vocab_size),
        fmt::format("is smaller than the data's vocabulary of {}", tokenizer_vocab_size));
  }
  model.seq_len = config.seq_len;

  const Choice<NormType> norms[] = {{"layer_norm", NormType::LayerNorm},
                                    {"rms_norm", NormType::RmsNorm}};
  const Choice<MlpType> mlps[] = {{"gelu_tanh", MlpType::GeluTanh},
                                  {"gelu_erf", MlpType::GeluErf},
                                  {"relu", MlpType::Relu},
                                  {"swiglu", MlpType::Swiglu}};
  const Choice<bool> positions[] = {{"learned", false}, {"rope", true}};
  const auto or_default = [&](const std::string& name, const char* gpt2, const char* other) {
    return !name.empty() ? name : llama ? other : gpt2;
  };
  TRIREME_TRY(norm, choose("model.norm", or_default(config.norm, "layer_norm", "rms_norm"), norms));
  TRIREME_TRY(
      mlp, choose("model.activation", or_default(config.activation, "gelu_tanh", "swiglu"), mlps));
  TRIREME_TRY(
      rope, choose("model.positions", or_default(config.positions, "learned", "rope"), positions));
  model.norm = norm;
  model.mlp = mlp;
  model.rope = rope;
  model.d_ff = config.d_ff != 0         ? config.d_ff
               : mlp == MlpType::Swiglu ? round_up(config.d_model * 8 / 3, 64)
                                        : 4 * config.d_model;
  model.bias = config.bias && !llama;
  model.norm_gain = config.norm_gain;
  model.embedding_norm = config.embedding_norm;
  model.final_norm = config.final_norm;
  model.tied_head = config.tied_head;
  model.norm_eps = config.norm_eps;
  model.dropout = config.dropout;
  model.init_stddev = config.init_stddev;
  model.init_scale_residual = config.init_scale_residual;
  model.rope_theta = config.rope_theta;
  model.rope_scaling_factor = config.rope_scaling_factor;
  model.rope_low_freq_factor = config.rope_low_freq_factor;
  model.rope_high_freq_factor = config.rope_high_freq_factor;
  model.rope_original_seq_len = config.rope_original_seq_len;
  if (config.family == ModelFamily::Moe) {
    const Choice<RouterType> routers[] = {{"softmax", RouterType::Softmax},
                                          {"sigmoid", RouterType::Sigmoid}};
    TRIREME_TRY(router, choose("model.router", config.router, routers));
    if (config.experts < 1) {
      return bad_value("model.experts", std::to_string(config.experts), "must be positive");
    }
    model.router = router;
    model.experts = config.experts;
    model.held_experts = config.experts;
    model.top_k = config.top_k;
    model.shared_experts = config.shared_experts;
    model.expert_groups = config.expert_groups;
    model.top_groups = config.top_groups;
    model.capacity_factor = config.capacity_factor;
    model.aux_loss = config.aux_loss;
    model.z_loss = config.z_loss;
    model.balance_rate = config.balance_rate;
  }
  TRIREME_TRY_DONE(check_positive(model));
  TRIREME_TRY_DONE(check_size(model));
  TRIREME_TRY_DONE(check_shapes(model));
  TRIREME_TRY_DONE(check_experts(model));
  return model;
}

StageSpec whole_model(const ModelSpec& model) { return {0, model.layers, true, true}; }

int64_t ModelSpec::expert_capacity(int64_t num_tokens) const {
  if (capacity_factor == 0.0) return num_tokens;
  const double even = double(num_tokens) * double(top_k) / double(experts);
  return std::clamp<int64_t>(int64_t(std::ceil(capacity_factor * even)), 1, num_tokens);
}

int64_t ModelSpec::expert_rows(int64_t num_tokens) const {
  return std::min(num_tokens * top_k, experts * expert_capacity(num_tokens));
}

int64_t ModelSpec::active_mlp_width() const {
  const int64_t one = up_width() + d_ff;
  return has_experts() ? experts + (top_k + shared_experts) * one : one;
}

}  // namespace trireme
