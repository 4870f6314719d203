#pragma once

#include <string>

#include "interchange/interchange_model.h"

// Fixtures for the tests of this folder.
namespace trireme {

inline ModelConfig small_model(const std::string& name) {
  ModelConfig config;
  config.layers = 2;
  config.d_model = 24;
  config.heads = 4;
  config.vocab_size = 45;
  config.seq_len = 10;
  const bool has_layers_that_differ = name.starts_with("deepseek") || name.starts_with("ernie");
  const bool has_experts = name.starts_with("mixtral") || has_layers_that_differ;
  if (has_experts || !name.starts_with("gpt2")) {
    config.family = has_experts ? ModelFamily::Moe : ModelFamily::Llama;
    config.experts = 3;
    config.kv_heads = 2;
    config.d_ff = 40;
    config.bias = false;
    config.activation = ActivationChoice::Swiglu;
    config.norm_eps = 3e-6;
  }
  if (has_layers_that_differ) {
    config.dense_layers = 1;
    config.dense_d_ff = 56;
    config.shared_experts = 2;
    if (name.starts_with("ernie")) config.balance_rate = 0.001;
  }
  if (name.starts_with("command_r")) {
    config.norm = NormChoice::LayerNorm;
    config.parallel_block = true;
  }
  if (name.starts_with("arcee")) config.activation = ActivationChoice::Relu2;
  if (name.starts_with("qwen3")) {
    config.family = name.starts_with("qwen3_moe") ? ModelFamily::Moe : ModelFamily::Llama;
    config.qk_norm = true;
    config.head_dim = 10;
  }
  if (name.starts_with("mistral") || name == "mixtral_window") config.window = 5;
  if (name.starts_with("deepseek_v3")) {
    config.kv_heads = 0;
    config.norm_eps = 1e-6;
    config.head_dim = 8;
    config.kv_lora_rank = 14;
    config.q_lora_rank = name == "deepseek_v3_without_q_latent" ? 0 : 18;
    config.qk_rope_head_dim = 6;
    config.v_head_dim = 10;
    config.router = RouterType::Sigmoid;
    config.experts = 4;
    config.expert_groups = 2;
    config.routed_scaling = 2.5;
    config.balance_rate = 0.001;
    config.rope_scaling = RopeScaling::Yarn;
    config.rope_scaling_factor = 4.0;
    config.rope_high_freq_factor = 32.0;
    config.rope_original_seq_len = 64;
  }
  if (name.starts_with("deepseek_v3_mtp")) config.mtp_depth = 1;
  config.tied_head = !name.ends_with("untied");
  if (name == "gpt2_erf_untied") config.activation = ActivationChoice::GeluErf;
  if (name == "gpt2_relu") config.activation = ActivationChoice::Relu;
  if (name == "gpt2_relu2") config.activation = ActivationChoice::Relu2;
  if (name == "gpt2_no_bias") config.bias = false;
  if (name == "gpt2_no_gain") config.norm_gain = false;
  if (name == "llama_head_dim") config.head_dim = 10;
  if (name == "llama3_untied") {
    config.rope_theta = 500000.0;
    config.rope_scaling_factor = 8.0;
    config.rope_original_seq_len = 4;
  }
  return config;
}

inline const char* const kSmallModels[] = {"gpt2",
                                           "gpt2_erf_untied",
                                           "gpt2_relu",
                                           "gpt2_relu2",
                                           "gpt2_no_bias",
                                           "gpt2_no_gain",
                                           "llama",
                                           "llama_untied",
                                           "llama_head_dim",
                                           "llama3_untied",
                                           "mixtral",
                                           "mixtral_untied",
                                           "arcee_untied",
                                           "command_r",
                                           "command_r_untied",
                                           "deepseek",
                                           "ernie",
                                           "ernie_untied",
                                           "qwen3",
                                           "qwen3_untied",
                                           "qwen3_moe",
                                           "mistral_untied",
                                           "mixtral_window",
                                           "deepseek_v3",
                                           "deepseek_v3_without_q_latent",
                                           "deepseek_v3_mtp",
                                           "deepseek_v3_mtp_untied"};

// Values that use all mantissa bits; gains are near one.
inline InterchangeModel random_model(const std::string& name) {
  const ModelConfig config = small_model(name);
  InterchangeModel model{.config = config, .weights = Weights(*resolve_model(config, 0))};
  uint64_t state = 88172645463325252u;
  for (const ParamSpec& param : model.weights.params()) {
    const float offset = param.init == ParamInit::One ? 1.0f : 0.0f;
    for (float& value : model.weights.at(param.name)) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      value = offset + 0.3f * (static_cast<float>(state >> 40) * 0x1p-23f - 1.0f);
    }
  }
  return model;
}

}  // namespace trireme
