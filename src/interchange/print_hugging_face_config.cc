#include "interchange/print_hugging_face_config.h"

#include <nlohmann/json.hpp>

#include "interchange/foreign_family.h"

namespace trireme {
namespace {

std::string_view torch_name_of(DType dtype) {
  return dtype == DType::F16 ? "float16" : dtype == DType::BF16 ? "bfloat16" : "float32";
}

nlohmann::ordered_json gpt2_config(const ModelSpec& model) {
  return {{"model_type", "gpt2"},
          {"architectures", nlohmann::ordered_json::array({"GPT2LMHeadModel"})},
          {"vocab_size", model.vocab_size},
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

nlohmann::ordered_json rotary_config(const ModelSpec& model) {
  nlohmann::ordered_json scaling;  // null if not set
  nlohmann::ordered_json rope = {{"rope_theta", model.rope_theta}, {"rope_type", "default"}};
  if (model.rope_scaling_factor != 1.0) {
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
          {"intermediate_size", model.d_ff},
          {"hidden_act", "silu"},
          {"rms_norm_eps", model.norm_eps},
          {"rope_theta", model.rope_theta},
          {"rope_scaling", scaling},
          {"rope_parameters", rope},
          {"tie_word_embeddings", model.tied_head}};
}

nlohmann::ordered_json llama_config(const ModelSpec& model) {
  nlohmann::ordered_json config = {
      {"model_type", "llama"},
      {"architectures", nlohmann::ordered_json::array({"LlamaForCausalLM"})}};
  config.update(rotary_config(model));
  config["attention_bias"] = false;
  config["mlp_bias"] = false;
  return config;
}

nlohmann::ordered_json mixtral_config(const ModelSpec& model) {
  nlohmann::ordered_json config = {
      {"model_type", "mixtral"},
      {"architectures", nlohmann::ordered_json::array({"MixtralForCausalLM"})}};
  config.update(rotary_config(model));
  config["num_local_experts"] = model.experts;
  config["num_experts_per_tok"] = model.top_k;
  config["router_aux_loss_coef"] = model.aux_loss;
  config["sliding_window"] = nullptr;
  return config;
}

nlohmann::ordered_json family_config(const ModelSpec& model, ForeignFamily family) {
  switch (family) {
    case ForeignFamily::Gpt2:
      return gpt2_config(model);
    case ForeignFamily::Llama:
      return llama_config(model);
    case ForeignFamily::Mixtral:
      return mixtral_config(model);
  }
  return {};
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
  return config.dump(2) + "\n";
}

}  // namespace trireme
