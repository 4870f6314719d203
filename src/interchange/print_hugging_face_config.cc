#include "interchange/print_hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "interchange/hugging_face_config.h"

namespace trireme {
namespace {

std::string_view torch_name_of(DType dtype) {
  return dtype == DType::F16 ? "float16" : dtype == DType::BF16 ? "bfloat16" : "float32";
}

nlohmann::ordered_json gpt2_config(const ModelSpec& model) {
  return {{"vocab_size", model.vocab_size},
          {"n_positions", model.seq_len},
          {"n_ctx", model.seq_len},  // versions before transformers 4 need it
          {"n_embd", model.d_model},
          {"n_layer", model.layers},
          {"n_head", model.heads},
          {"n_inner", model.d_ff == 4 * model.d_model ? nlohmann::ordered_json()
                                                      : nlohmann::ordered_json(model.d_ff)},
          {"activation_function", model.mlp == MlpType::GeluErf ? "gelu"
                                  : model.mlp == MlpType::Relu  ? "relu"
                                  : model.mlp == MlpType::Relu2 ? "relu2"
                                                                : "gelu_new"},
          {"layer_norm_epsilon", model.norm_eps},
          {"resid_pdrop", model.dropout},
          {"embd_pdrop", model.dropout},
          {"attn_pdrop", model.dropout},
          {"tie_word_embeddings", model.tied_head}};
}

// Logits are scaled by cos and sin, or, of latent attention, by mscale_all_dim.
nlohmann::ordered_json yarn_config(const ModelSpec& model) {
  nlohmann::ordered_json scaling = {
      {"rope_type", "yarn"},
      {"factor", model.rope_scaling_factor},
      {"beta_fast", model.rope_high_freq_factor},
      {"beta_slow", model.rope_low_freq_factor},
      {"original_max_position_embeddings", model.rope_original_seq_len}};
  if (model.has_latents() && model.rope_mscale != 0.0) {
    scaling["mscale"] = scaling["mscale_all_dim"] = model.rope_mscale;
  } else if (model.has_latents()) {
    scaling["attention_factor"] = 1.0;
  } else if (model.rope_mscale != 1.0) {
    scaling["attention_factor"] =
        0.1 * model.rope_mscale * std::log(model.rope_scaling_factor) + 1.0;
  }
  return scaling;
}

nlohmann::ordered_json rotary_config(const ModelSpec& model) {
  nlohmann::ordered_json scaling;  // null if not set
  nlohmann::ordered_json rope = {{"rope_theta", model.rope_theta}, {"rope_type", "default"}};
  if (model.rope_scaling_factor != 1.0 && model.rope_scaling == RopeScaling::Yarn) {
    scaling = yarn_config(model);
    rope.update(scaling);
  } else if (model.rope_scaling_factor != 1.0) {
    scaling = {{"rope_type", "llama3"},
               {"factor", model.rope_scaling_factor},
               {"low_freq_factor", model.rope_low_freq_factor},
               {"high_freq_factor", model.rope_high_freq_factor},
               {"original_max_position_embeddings", model.rope_original_seq_len}};
    rope.update(scaling);
  }
  return {{"vocab_size", model.vocab_size},
          {"max_position_embeddings", model.seq_len},
          {"hidden_size", model.d_model},
          {"num_hidden_layers", model.layers},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.kv_heads},
          {"head_dim", model.head_dim},
          {"intermediate_size", model.dense_layers > 0 ? model.dense_d_ff : model.d_ff},
          {"hidden_act", "silu"},
          {"rms_norm_eps", model.norm_eps},
          {"rope_theta", model.rope_theta},
          {"rope_scaling", scaling},
          {"rope_parameters", rope},
          {"tie_word_embeddings", model.tied_head}};
}

nlohmann::ordered_json window_of(const ModelSpec& model) {
  return model.window > 0 ? nlohmann::ordered_json(model.window) : nlohmann::ordered_json();
}

nlohmann::ordered_json qwen3_keys(const ModelSpec& model) {
  return {{"attention_bias", false},
          {"use_sliding_window", model.window > 0},
          {"sliding_window", window_of(model)},
          {"max_window_layers", model.window > 0 ? 0 : model.layers}};
}

nlohmann::ordered_json qwen3_moe_keys(const ModelSpec& model) {
  nlohmann::ordered_json keys = qwen3_keys(model);
  keys.update({{"moe_intermediate_size", model.d_ff},
               {"num_experts", model.experts},
               {"num_experts_per_tok", model.top_k},
               {"norm_topk_prob", true},
               {"router_aux_loss_coef", model.aux_loss},
               {"decoder_sparse_step", 1},
               {"mlp_only_layers", nlohmann::ordered_json::array()}});
  return keys;
}

nlohmann::ordered_json deepseek_v3_keys(const ModelSpec& model) {
  const auto null_or = [](int64_t value) {
    return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  const bool has_experts = model.has_experts();
  return {{"num_key_value_heads", model.heads},
          {"head_dim", model.qk_rope_head_dim},
          {"q_lora_rank", null_or(model.q_lora_rank)},
          {"kv_lora_rank", model.kv_lora_rank},
          {"qk_nope_head_dim", model.head_dim},
          {"qk_rope_head_dim", model.qk_rope_head_dim},
          {"qk_head_dim", model.key_dim()},
          {"v_head_dim", model.v_head_dim},
          {"rope_interleave", true},
          {"attention_bias", false},
          {"moe_intermediate_size", model.d_ff},
          {"first_k_dense_replace", has_experts ? model.dense_layers : model.layers},
          {"n_routed_experts", std::max<int64_t>(1, model.experts)},
          {"num_experts_per_tok", std::max<int64_t>(1, model.top_k)},
          {"n_shared_experts", model.shared_experts},
          {"n_group", model.expert_groups},
          {"topk_group", model.top_groups},
          {"routed_scaling_factor", model.routed_scaling},
          {"scoring_func", "sigmoid"},
          {"topk_method", "noaux_tc"},
          {"norm_topk_prob", true},
          {"moe_layer_freq", 1},
          {"aux_loss_alpha", model.aux_loss},
          {"num_nextn_predict_layers", model.mtp_depth}};
}

// The keys that a family adds to those of all with rotary positions, or replaces.
nlohmann::ordered_json own_keys(const ModelSpec& model, ForeignFamily family) {
  switch (family) {
    case ForeignFamily::Gpt2:
      return nlohmann::ordered_json::object();
    case ForeignFamily::Llama:
      return {{"attention_bias", false}, {"mlp_bias", false}};
    case ForeignFamily::Arcee:
      return {{"hidden_act", "relu2"}, {"attention_bias", false}, {"mlp_bias", false}};
    case ForeignFamily::Cohere:
      return {{"layer_norm_eps", model.norm_eps},
              {"logit_scale", 1.0},  // the final norm has it
              {"use_qk_norm", false},
              {"attention_bias", false}};
    case ForeignFamily::Mixtral:
      return {{"num_local_experts", model.experts},
              {"num_experts_per_tok", model.top_k},
              {"router_aux_loss_coef", model.aux_loss},
              {"sliding_window", window_of(model)}};
    case ForeignFamily::Deepseek:
      return {{"moe_intermediate_size", model.d_ff},
              {"n_routed_experts", model.experts},
              {"num_experts_per_tok", model.top_k},
              {"n_shared_experts", model.shared_experts > 0
                                       ? nlohmann::ordered_json(model.shared_experts)
                                       : nlohmann::ordered_json()},
              {"first_k_dense_replace", model.dense_layers},
              {"moe_layer_freq", 1},
              {"scoring_func", "softmax"},
              {"norm_topk_prob", true},
              {"aux_loss_alpha", model.aux_loss},
              {"seq_aux", true},
              {"attention_bias", false},
              {"pretraining_tp", 1}};
    case ForeignFamily::Ernie:
      return {{"moe_intermediate_size", model.d_ff},
              {"moe_num_experts", model.experts},
              {"moe_k", model.top_k},
              {"moe_num_shared_experts", model.shared_experts},
              {"moe_layer_start_index", model.dense_layers},
              {"moe_layer_end_index", model.layers - 1},
              {"moe_layer_interval", 1},
              {"moe_norm_min", 1e-12},
              {"router_aux_loss_coef", model.aux_loss},
              {"use_bias", false}};
    case ForeignFamily::Qwen3:
      return qwen3_keys(model);
    case ForeignFamily::Qwen3Moe:
      return qwen3_moe_keys(model);
    case ForeignFamily::Mistral:
      return {{"sliding_window", window_of(model)}};
    case ForeignFamily::DeepseekV3:
      return deepseek_v3_keys(model);
  }
  return {};
}

nlohmann::ordered_json family_config(const ModelSpec& model, ForeignFamily family) {
  const auto families = hugging_face_families();
  const auto names = std::ranges::find(families, family, &HuggingFaceFamily::family);
  nlohmann::ordered_json config = {
      {"model_type", names->type},
      {"architectures", nlohmann::ordered_json::array({names->architecture})}};
  const bool is_gpt2 = family == ForeignFamily::Gpt2;
  config.update(is_gpt2 ? gpt2_config(model) : rotary_config(model));
  config.update(own_keys(model, family));
  return config;
}

}  // namespace

Result<std::string> print_hugging_face_config(const ModelSpec& model,
                                              const HuggingFaceConfigExtras& extras) {
  TRIREME_TRY(family, foreign_family(model));
  nlohmann::ordered_json config = family_config(model, family);
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (extras.end_of_text)
      config[key] = *extras.end_of_text;
    else
      config[key] = nullptr;
  }
  config["torch_dtype"] = torch_name_of(extras.dtype);
  config["dtype"] = torch_name_of(extras.dtype);
  config["use_cache"] = true;
  return json_text(config, 2) + "\n";
}

}  // namespace trireme
