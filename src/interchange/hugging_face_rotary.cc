#include "interchange/hugging_face_rotary.h"

#include <fmt/format.h>

#include <cmath>

#include "base/input_limits.h"

namespace trireme {
namespace {

using nlohmann::json;
using strict_json::FieldError;

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

bool is_activation(const std::string& name, ActivationChoice activation) {
  if (activation == ActivationChoice::Relu2) return name == "relu2";
  return name == "silu" || name == "swish";
}

}  // namespace

void read_rotary_family(const HuggingFaceFields& fields, const RotaryDefaults& defaults,
                        ModelConfig& model) {
  model.layers = fields.count("num_hidden_layers", {}, limits::kLayers);
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

}  // namespace trireme
