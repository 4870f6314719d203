#include <fmt/format.h>

#include <cmath>

#include "base/input_limits.h"
#include "interchange/hugging_face_families.h"
#include "interchange/hugging_face_rotary.h"

namespace trireme {
namespace {

using strict_json::FieldError;

ActivationChoice activation_of(const std::string& name) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
    return ActivationChoice::GeluTanh;
  if (name == "gelu" || name == "gelu_python") return ActivationChoice::GeluErf;
  if (name == "relu") return ActivationChoice::Relu;
  if (name == "relu2") return ActivationChoice::Relu2;
  throw UnsupportedSetting{"activation_function = \"" + name +
                           "\"; gelu_new, gelu, relu and relu2 are supported"};
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

}  // namespace

void read_gpt2(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Gpt2;
  model.layers = fields.count("n_layer", 12, limits::kLayers);
  model.d_model = fields.count("n_embd", 768);
  model.heads = fields.count("n_head", 12);
  model.d_ff = fields.count("n_inner", 4 * model.d_model, 4 * limits::kWidth);
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

void read_llama(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Llama;
  read_rotary_family(fields, {}, model);
  refuse_biases(fields);
  if (fields.number("pretraining_tp", 1.0) != 1.0) {
    throw UnsupportedSetting{"pretraining_tp other than 1 is not supported"};
  }
}

void read_mistral(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Llama;
  read_rotary_family(fields, {.seq_len = 131072}, model);
  refuse_biases(fields);
  // The library has a window if the key is absent, and none if it is null.
  model.window = fields.has("sliding_window") ? fields.count("sliding_window", 0) : 4096;
}

void read_qwen3(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Llama;
  read_rotary_family(fields, {.seq_len = 32768}, model);
  refuse_biases(fields);
  model.head_dim = fields.count("head_dim", 128);
  model.qk_norm = true;
  read_qwen_window(fields, model);
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

}  // namespace trireme
