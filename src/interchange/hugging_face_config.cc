#include "interchange/hugging_face_config.h"

#include <fmt/format.h>

#include <cmath>

#include "base/input_limits.h"
#include "interchange/hugging_face_fields.h"

namespace trireme {
namespace {

using nlohmann::json;
using strict_json::FieldError;

constexpr int64_t kGreatestWidth = limits::kWidth;
constexpr int64_t kGreatestLayers = limits::kLayers;

constexpr HuggingFaceFamily kFamilies[] = {
    {ForeignFamily::Gpt2, "gpt2", "GPT2LMHeadModel"},
    {ForeignFamily::Llama, "llama", "LlamaForCausalLM"},
    {ForeignFamily::Arcee, "arcee", "ArceeForCausalLM"},
    {ForeignFamily::Cohere, "cohere", "CohereForCausalLM"},
    {ForeignFamily::Mixtral, "mixtral", "MixtralForCausalLM"},
    {ForeignFamily::Deepseek, "deepseek", "DeepseekForCausalLM"},
    {ForeignFamily::Ernie, "ernie4_5_moe", "Ernie4_5_MoeForCausalLM"},
    {ForeignFamily::Qwen3, "qwen3", "Qwen3ForCausalLM"},
    {ForeignFamily::Qwen3Moe, "qwen3_moe", "Qwen3MoeForCausalLM"},
    {ForeignFamily::Mistral, "mistral", "MistralForCausalLM"},
    {ForeignFamily::DeepseekV3, "deepseek_v3", "DeepseekV3ForCausalLM"}};

ForeignFamily family_of_type(const std::string& type) {
  if (type.empty()) throw FieldError{"no key \"model_type\""};
  std::vector<std::string_view> types;
  for (const HuggingFaceFamily& known : kFamilies) {
    if (known.type == type) return known.family;
    types.push_back(known.type);
  }
  if (type == "nemotron") {
    throw UnsupportedSetting{
        "model_type = \"nemotron\": rotary positions that turn a part of a head "
        "(partial_rotary_factor) are not supported, nor norms with biases beside products without "
        "them"};
  }
  throw UnsupportedSetting{
      fmt::format("model_type = \"{}\"; supported are {}", type, fmt::join(types, ", "))};
}

ActivationChoice activation_of(const std::string& name) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
    return ActivationChoice::GeluTanh;
  if (name == "gelu" || name == "gelu_python") return ActivationChoice::GeluErf;
  if (name == "relu") return ActivationChoice::Relu;
  if (name == "relu2") return ActivationChoice::Relu2;
  throw UnsupportedSetting{"activation_function = \"" + name +
                           "\"; gelu_new, gelu, relu and relu2 are supported"};
}

void read_gpt2(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Gpt2;
  model.layers = fields.count("n_layer", 12, kGreatestLayers);
  model.d_model = fields.count("n_embd", 768);
  model.heads = fields.count("n_head", 12);
  model.d_ff = fields.count("n_inner", 4 * model.d_model, 4 * kGreatestWidth);
  model.vocab_size = fields.count("vocab_size", 50257);
  model.seq_len = fields.count("n_positions", fields.count("n_ctx", 1024));
  model.activation = activation_of(fields.word("activation_function", "gelu_new"));
  model.norm_eps = fields.number("layer_norm_epsilon", 1e-5);
  model.dropout = fields.number("resid_pdrop", 0.1);
  model.tied_head = fields.flag("tie_word_embeddings", true);
  fields.refuse_flag("scale_attn_weights", false, "attention without 1/sqrt(head_dim)");
  fields.refuse_flag("scale_attn_by_inverse_layer_idx", true, "attention scaled by the layer");
  fields.refuse_flag("add_cross_attention", true, "cross-attention");
}

// The library multiplies cos and sin by one number, which multiplies the logits by its square, and
// DeepSeek's logits by another. Ours have one number for both.
void read_yarn(const HuggingFaceFields& fields, const HuggingFaceFields& rope, const char* where,
               ModelConfig& model) {
  const auto refuse = [&](const char* what) {
    throw UnsupportedSetting{fmt::format("{}: {} is not supported", where, what)};
  };
  model.rope_scaling = RopeScaling::Yarn;
  model.rope_scaling_factor = rope.number("factor", 1.0);
  model.rope_high_freq_factor = rope.number("beta_fast", 32.0);
  model.rope_low_freq_factor = rope.number("beta_slow", 1.0);
  model.rope_original_seq_len = rope.count("original_max_position_embeddings", model.seq_len);
  if (!rope.flag("truncate", true)) refuse("truncate = false");
  const double of_all = rope.number("mscale_all_dim", 0.0), of_cos = rope.number("mscale", 0.0);
  const bool has_latents = fields.find("kv_lora_rank") != nullptr;
  if (has_latents && of_all != of_cos) refuse("mscale other than mscale_all_dim");
  if (!has_latents && of_all != of_cos) refuse("mscale without latent attention");
  model.rope_mscale = has_latents ? of_all : of_all != 0.0 ? 0.0 : 1.0;
  const double factor = rope.number("attention_factor", 0.0);  // absent: from the others
  if (factor == 0.0 && has_latents && of_all == 0.0) refuse("yarn without mscale_all_dim");
  if (factor == 0.0) return;
  if (has_latents && factor != 1.0) refuse("attention_factor beside latent attention");
  if (has_latents || factor == 1.0) {
    model.rope_mscale = has_latents ? of_all : 0.0;
  } else {
    model.rope_mscale = (factor - 1.0) / (0.1 * std::log(model.rope_scaling_factor));
  }
}

// transformers 4 has rope_theta and rope_scaling; transformers 5 has rope_parameters with both.
void read_rope(const HuggingFaceFields& fields, double default_theta, ModelConfig& model) {
  model.rope_theta = fields.number("rope_theta", default_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* object = fields.find(key);
    if (object == nullptr) continue;
    const HuggingFaceFields rope(*object, key);
    const double theta = rope.number("rope_theta", model.rope_theta);
    if (fields.find("rope_theta") != nullptr && theta != model.rope_theta) {
      throw FieldError{
          fmt::format("rope_theta = {} but {}.rope_theta = {}", model.rope_theta, key, theta)};
    }
    model.rope_theta = theta;
    const std::string type = rope.word("rope_type", rope.word("type", "default"));
    if (type == "default") continue;
    if (type == "yarn") {
      read_yarn(fields, rope, key, model);
      continue;
    }
    if (type != "llama3") {
      throw UnsupportedSetting{
          fmt::format("{}: positions scaled by \"{}\"; none, \"llama3\" and \"yarn\" are supported",
                      key, type)};
    }
    model.rope_scaling_factor = rope.number("factor", 8.0);
    model.rope_low_freq_factor = rope.number("low_freq_factor", 1.0);
    model.rope_high_freq_factor = rope.number("high_freq_factor", 4.0);
    model.rope_original_seq_len = rope.count("original_max_position_embeddings", 8192);
  }
  const bool is_sound = model.rope_theta > 0.0 && model.rope_scaling_factor >= 1.0 &&
                        model.rope_low_freq_factor > 0.0 &&
                        (model.rope_high_freq_factor > model.rope_low_freq_factor ||
                         (model.rope_scaling == RopeScaling::Yarn &&
                          model.rope_high_freq_factor == model.rope_low_freq_factor)) &&
                        std::isfinite(model.rope_theta) &&
                        std::isfinite(model.rope_scaling_factor) && model.rope_original_seq_len > 0;
  if (!is_sound) throw FieldError{"the numbers of rotary positions contradict each other"};
}

// Settings that all families but GPT-2 share, with the library's defaults for absent keys.
struct RotaryDefaults {
  int64_t seq_len = 2048;
  double rope_theta = 10000.0;
  const char* norm_eps_key = "rms_norm_eps";
  double norm_eps = 1e-6;
  bool tied_head = false;
  ActivationChoice activation = ActivationChoice::Swiglu;
};

bool is_activation(const std::string& name, ActivationChoice activation) {
  if (activation == ActivationChoice::Relu2) return name == "relu2";
  return name == "silu" || name == "swish";
}

void read_rotary_family(const HuggingFaceFields& fields, const RotaryDefaults& defaults,
                        ModelConfig& model) {
  model.layers = fields.count("num_hidden_layers", {}, kGreatestLayers);
  model.d_model = fields.count("hidden_size");
  model.heads = fields.count("num_attention_heads");
  model.kv_heads = fields.count("num_key_value_heads", model.heads);
  model.head_dim = fields.count("head_dim", 0);
  model.d_ff = fields.count("intermediate_size");
  model.vocab_size = fields.count("vocab_size");
  model.seq_len = fields.count("max_position_embeddings", defaults.seq_len);
  const char* usual = defaults.activation == ActivationChoice::Relu2 ? "relu2" : "silu";
  const std::string activation = fields.word("hidden_act", usual);
  if (!is_activation(activation, defaults.activation)) {
    throw UnsupportedSetting{
        fmt::format("hidden_act = \"{}\"; {} is supported here", activation, usual)};
  }
  model.activation = defaults.activation;
  model.bias = false;
  model.tied_head = fields.flag("tie_word_embeddings", defaults.tied_head);
  model.norm_eps = fields.number(defaults.norm_eps_key, defaults.norm_eps);
  read_rope(fields, defaults.rope_theta, model);
}

void refuse_biases(const HuggingFaceFields& fields) {
  for (const char* key : {"attention_bias", "mlp_bias", "use_bias"}) {
    fields.refuse_flag(key, true, "a model with rotary positions and biases");
  }
}

void read_llama(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Llama;
  read_rotary_family(fields, {}, model);
  refuse_biases(fields);
  if (fields.number("pretraining_tp", 1.0) != 1.0) {
    throw UnsupportedSetting{"pretraining_tp other than 1 is not supported"};
  }
}

// Mixtral's router takes the best of a softmax and divides them by their sum, as ours does.
void read_mixtral(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Moe;
  read_rotary_family(fields, {.seq_len = 131072, .rope_theta = 1e6, .norm_eps = 1e-5}, model);
  model.experts = fields.count("num_local_experts", 8);
  model.top_k = fields.count("num_experts_per_tok", 2);
  model.aux_loss = fields.number("router_aux_loss_coef", 0.001);
  model.window = fields.count("sliding_window", 0);
}

void read_mistral(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Llama;
  read_rotary_family(fields, {.seq_len = 131072}, model);
  refuse_biases(fields);
  // The library has a window if the key is absent, and none if it is null.
  model.window = fields.has("sliding_window") ? fields.count("sliding_window", 0) : 4096;
}

// Only the layers from max_window_layers on have the window.
void read_qwen_window(const HuggingFaceFields& fields, ModelConfig& model) {
  if (!fields.flag("use_sliding_window", false)) return;
  const int64_t first = fields.count("max_window_layers", 28);
  if (first >= model.layers) return;
  if (first > 0) {
    throw UnsupportedSetting{"max_window_layers: a window is that of all layers or of none here"};
  }
  model.window = fields.count("sliding_window", 4096);
}

void read_qwen3(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Llama;
  read_rotary_family(fields, {.seq_len = 32768}, model);
  refuse_biases(fields);
  model.head_dim = fields.count("head_dim", 128);
  model.qk_norm = true;
  read_qwen_window(fields, model);
}

void read_qwen3_moe(const HuggingFaceFields& fields, ModelConfig& model) {
  read_qwen3(fields, model);
  model.family = ModelFamily::Moe;
  model.d_ff = fields.count("moe_intermediate_size", 768);
  model.experts = fields.count("num_experts", 128);
  model.top_k = fields.count("num_experts_per_tok", 8);
  model.aux_loss = fields.number("router_aux_loss_coef", 0.001);
  if (!fields.flag("norm_topk_prob", false)) {
    throw UnsupportedSetting{
        "norm_topk_prob = false: weights of experts that are not divided by their sum are not "
        "supported"};
  }
  const json* dense = fields.find("mlp_only_layers");
  const bool has_dense = dense != nullptr && !(dense->is_array() && dense->empty());
  if (has_dense || fields.count("decoder_sparse_step", 1) != 1) {
    throw UnsupportedSetting{
        "mlp_only_layers or decoder_sparse_step: every layer of a qwen3_moe has experts here"};
  }
}

void read_arcee(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Llama;
  read_rotary_family(
      fields, {.seq_len = 4096, .norm_eps = 1e-5, .activation = ActivationChoice::Relu2}, model);
  refuse_biases(fields);
}

// Attention and MLP read one norm. All logits have a factor, which the final norm takes.
void read_cohere(const HuggingFaceFields& fields, HuggingFaceConfig& config) {
  ModelConfig& model = config.model;
  model.family = ModelFamily::Llama;
  model.norm = NormChoice::LayerNorm;
  model.parallel_block = true;
  read_rotary_family(
      fields,
      {.seq_len = 8192, .norm_eps_key = "layer_norm_eps", .norm_eps = 1e-5, .tied_head = true},
      model);
  refuse_biases(fields);
  fields.refuse_flag("use_qk_norm", true, "a norm of queries and keys");
  config.logit_scale = fields.number("logit_scale", 0.0625);
  if (!(config.logit_scale > 0.0 && std::isfinite(float(config.logit_scale)))) {
    throw FieldError{fmt::format("logit_scale = {} is not positive", config.logit_scale)};
  }
}

// A model whose first layers have no experts: they have the width that Llama calls
// intermediate_size, and experts have one of their own.
void read_layers_that_differ(const HuggingFaceFields& fields, int64_t dense_layers,
                             ModelConfig& model) {
  model.family = ModelFamily::Moe;
  model.dense_layers = dense_layers;
  if (dense_layers > 0) model.dense_d_ff = model.d_ff;
  model.d_ff = fields.count("moe_intermediate_size");
}

void read_deepseek(const HuggingFaceFields& fields, ModelConfig& model) {
  read_rotary_family(fields, {}, model);
  refuse_biases(fields);
  read_layers_that_differ(fields, fields.count("first_k_dense_replace", 0), model);
  model.experts = fields.count("n_routed_experts");
  model.top_k = fields.count("num_experts_per_tok");
  model.shared_experts = fields.count("n_shared_experts", 0);
  model.aux_loss = fields.number("aux_loss_alpha", 0.001);
  if (fields.count("moe_layer_freq", 1) != 1) {
    throw UnsupportedSetting{"moe_layer_freq: only the first layers may be without experts"};
  }
  if (fields.word("scoring_func", "softmax") != "softmax") {
    throw UnsupportedSetting{"scoring_func: softmax is supported"};
  }
  if (!fields.flag("norm_topk_prob", false)) {
    throw UnsupportedSetting{
        "norm_topk_prob = false: weights of experts that are not divided by their sum are not "
        "supported"};
  }
  if (model.top_k == 1) {
    throw UnsupportedSetting{
        "num_experts_per_tok = 1: a weight that is not divided by itself is not supported"};
  }
}

// ERNIE 4.5 chooses experts by the sum of a score and a bias, as model.balance_rate does.
void read_ernie(const HuggingFaceFields& fields, ModelConfig& model) {
  read_rotary_family(
      fields, {.seq_len = 131072, .rope_theta = 500000.0, .norm_eps = 1e-5, .tied_head = true},
      model);
  refuse_biases(fields);
  read_layers_that_differ(fields, fields.count("moe_layer_start_index", 1), model);
  model.experts = fields.count("moe_num_experts", 64);
  model.top_k = fields.count("moe_k", 6);
  model.shared_experts = fields.count("moe_num_shared_experts", 2);
  model.aux_loss = fields.number("router_aux_loss_coef", 0.001);
  model.balance_rate = kForeignBalanceRate;
  const double last = fields.number("moe_layer_end_index", -1.0);
  if (fields.count("moe_layer_interval", 1) != 1 ||
      (last != -1.0 && last != double(model.layers - 1))) {
    throw UnsupportedSetting{
        "moe_layer_interval or moe_layer_end_index: only the first layers may be without experts"};
  }
}

// The router's bias is moved as model.balance_rate does.
void read_deepseek_v3(const HuggingFaceFields& fields, ModelConfig& model) {
  read_rotary_family(fields, {.seq_len = 4096}, model);
  refuse_biases(fields);
  model.kv_heads = 0;
  model.head_dim = fields.count("qk_nope_head_dim", 128);
  model.kv_lora_rank = fields.count("kv_lora_rank", 512);
  model.q_lora_rank = fields.count("q_lora_rank", fields.has("q_lora_rank") ? 0 : 1536);
  model.qk_rope_head_dim = fields.count("qk_rope_head_dim", 64);
  model.v_head_dim = fields.count("v_head_dim", 128);
  if (model.norm_eps != 1e-6) {
    throw UnsupportedSetting{fmt::format(
        "rms_norm_eps = {}: the norms of latents have 1e-6, and all norms have one number here",
        model.norm_eps)};
  }
  fields.refuse_flag("rope_interleave", false, "positions that turn the halves of a head");
  const int64_t dense = fields.count("first_k_dense_replace", 3);
  model.family = ModelFamily::Llama;
  if (dense >= model.layers) return;  // no layer has experts
  read_layers_that_differ(fields, dense, model);
  model.router = RouterType::Sigmoid;
  model.experts = fields.count("n_routed_experts", 256);
  model.top_k = fields.count("num_experts_per_tok", 8);
  model.shared_experts = fields.count("n_shared_experts", 1);
  model.expert_groups = fields.count("n_group", 8);
  model.top_groups = fields.count("topk_group", 4);
  model.routed_scaling = fields.number("routed_scaling_factor", 2.5);
  model.balance_rate = kForeignBalanceRate;
  model.aux_loss = fields.number("aux_loss_alpha", 0.0001);
  if (fields.count("moe_layer_freq", 1) != 1) {
    throw UnsupportedSetting{"moe_layer_freq: only the first layers may be without experts"};
  }
  if (fields.word("scoring_func", "sigmoid") != "sigmoid" ||
      fields.word("topk_method", "noaux_tc") != "noaux_tc") {
    throw UnsupportedSetting{
        "scoring_func or topk_method: sigmoid and noaux_tc are supported in a deepseek_v3"};
  }
  if (!fields.flag("norm_topk_prob", true)) {
    throw UnsupportedSetting{
        "norm_topk_prob = false: weights of experts that are not divided by their sum are not "
        "supported"};
  }
}

std::optional<DType> read_dtype(const HuggingFaceFields& fields) {
  const std::string name = fields.word("dtype", fields.word("torch_dtype", ""));
  if (name == "float32") return DType::F32;
  if (name == "float16") return DType::F16;
  if (name == "bfloat16") return DType::BF16;
  return std::nullopt;
}

std::optional<int64_t> read_end_of_text(const HuggingFaceFields& fields) {
  const json* eos = fields.find("eos_token_id");
  if (eos != nullptr && eos->is_array()) eos = eos->empty() ? nullptr : &eos->front();
  if (eos == nullptr) return std::nullopt;
  if (!eos->is_number_unsigned() || eos->get<uint64_t>() > uint64_t(kGreatestWidth)) {
    throw FieldError{"eos_token_id: neither a token nor a list of tokens"};
  }
  return static_cast<int64_t>(eos->get<uint64_t>());
}

void read_family(const HuggingFaceFields& fields, HuggingFaceConfig& config) {
  switch (config.family) {
    case ForeignFamily::Gpt2:
      return read_gpt2(fields, config.model);
    case ForeignFamily::Llama:
      return read_llama(fields, config.model);
    case ForeignFamily::Arcee:
      return read_arcee(fields, config.model);
    case ForeignFamily::Cohere:
      return read_cohere(fields, config);
    case ForeignFamily::Mixtral:
      return read_mixtral(fields, config.model);
    case ForeignFamily::Deepseek:
      return read_deepseek(fields, config.model);
    case ForeignFamily::Ernie:
      return read_ernie(fields, config.model);
    case ForeignFamily::Qwen3:
      return read_qwen3(fields, config.model);
    case ForeignFamily::Qwen3Moe:
      return read_qwen3_moe(fields, config.model);
    case ForeignFamily::Mistral:
      return read_mistral(fields, config.model);
    case ForeignFamily::DeepseekV3:
      return read_deepseek_v3(fields, config.model);
  }
}

HuggingFaceConfig read_config(const json& object) {
  const HuggingFaceFields fields(object);
  HuggingFaceConfig config;
  config.family = family_of_type(fields.word("model_type", ""));
  read_family(fields, config);
  if (fields.find("quantization_config") != nullptr) {
    throw UnsupportedSetting{
        "quantization_config: quantised weights are not supported; export the model in float16 or "
        "bfloat16"};
  }
  const ModelConfig& model = config.model;
  if (!(model.norm_eps > 0.0 && model.norm_eps < 1.0)) {
    throw FieldError{fmt::format("the epsilon of the norms is {}", model.norm_eps)};
  }
  if (model.experts * model.layers > kMostForeignExperts) {
    throw FieldError{fmt::format("{} experts in {} layers", model.experts, model.layers)};
  }
  if (model.heads > kGreatestWidth / std::max<int64_t>(1, model.head_dim)) {
    throw FieldError{"heads times head_dim is too large"};
  }
  config.dtype = read_dtype(fields);
  config.end_of_text = read_end_of_text(fields);
  return config;
}

}  // namespace

std::span<const HuggingFaceFamily> hugging_face_families() { return kFamilies; }

Result<HuggingFaceConfig> parse_hugging_face_config(std::string_view text) {
  try {
    HuggingFaceConfig config = read_config(strict_json::parse(text, 32));
    if (auto model = resolve_model(config.model, 0); !model.ok()) {
      return Error{ErrorKind::Damaged, "config.json: " + model.error().message};
    }
    return config;
  } catch (const FieldError& failure) {
    return Error{ErrorKind::Damaged, "config.json: " + failure.message};
  } catch (const UnsupportedSetting& reason) {
    return Error{ErrorKind::Infeasible, "config.json: " + reason.message};
  }
}

}  // namespace trireme
