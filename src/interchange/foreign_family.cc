#include "interchange/foreign_family.h"

namespace trireme {
namespace {

Error refuse(const std::string& what) {
  return {ErrorKind::Infeasible,
          "the model has " + what +
              ": neither GPT-2, Llama, Arcee, Command R, Mixtral, "
              "DeepSeek-MoE, ERNIE 4.5, Qwen3, Mistral nor DeepSeek-V3 can hold it"};
}

// Refuses a model that DeepSeek-MoE cannot hold, and ERNIE 4.5 only with a bias of the router.
Error refuse_shared(const std::string& what) {
  return {ErrorKind::Infeasible,
          "the model has shared experts or dense layers and " + what +
              ": DeepSeek-MoE cannot hold that, and ERNIE 4.5 also has a bias of the router; a "
              "model that was trained with model.balance_rate above 0 can be written as ERNIE 4.5"};
}

bool has_even_heads(const ModelSpec& model) {
  return model.heads * model.head_dim == model.d_model;
}

// Latent attention, with experts as DeepSeek-V3 chooses them or with none.
Result<ForeignFamily> latent_family(const ModelSpec& model) {
  if (model.window > 0) return refuse("latent attention to a window (model.window)");
  if (model.has_indexer()) return refuse("an indexer that chooses keys (model.index_top_k)");
  const bool is_stretched = model.rope_scaling_factor != 1.0;
  if (is_stretched && model.rope_scaling != RopeScaling::Yarn) {
    return refuse("latent attention with positions that are stretched as in Llama 3");
  }
  if (model.mlp != MlpType::Swiglu) return refuse("latent attention without swiglu");
  if (model.norm_eps != 1e-6) {
    return refuse(
        "latent attention with model.norm_eps other than 1e-6, which the norms of latents "
        "of DeepSeek-V3 have");
  }
  if (!model.has_experts()) return ForeignFamily::DeepseekV3;
  if (model.router != RouterType::Sigmoid) return refuse("latent attention with a softmax router");
  if (model.capacity_factor > 0.0) return refuse("experts with a capacity (model.capacity_factor)");
  return ForeignFamily::DeepseekV3;
}

Result<ForeignFamily> expert_family(const ModelSpec& model) {
  if (model.routed_scaling != 1.0) return refuse("a factor of its experts (model.routed_scaling)");
  if (model.router != RouterType::Softmax) return refuse("a sigmoid router");
  if (model.expert_groups > 1) return refuse("groups of experts (model.expert_groups)");
  if (model.capacity_factor > 0.0) return refuse("experts with a capacity (model.capacity_factor)");
  const bool is_uniform = model.shared_experts == 0 && model.dense_layers == 0;
  if (model.qk_norm) {
    const bool is_qwen = is_uniform && model.balance_rate == 0.0;
    if (is_qwen) return ForeignFamily::Qwen3Moe;
    return refuse(
        "a norm of queries and keys beside shared experts, dense layers or a bias of the router");
  }
  if (is_uniform && model.balance_rate == 0.0) return ForeignFamily::Mixtral;
  if (model.window > 0) return refuse("a window beside shared experts or dense layers");
  if (model.balance_rate > 0.0) return ForeignFamily::Ernie;
  if (model.top_k == 1) return refuse_shared("one expert of a token (model.top_k)");
  if (!has_even_heads(model)) return refuse_shared("heads * head_dim other than d_model");
  if (model.rope_scaling_factor != 1.0) {
    return refuse_shared("scaled rotary positions (model.rope_scaling_factor)");
  }
  return ForeignFamily::Deepseek;
}

Result<ForeignFamily> rotary_family(const ModelSpec& model) {
  const bool has_swiglu = model.mlp == MlpType::Swiglu;
  const bool has_rms_norm = model.norm == NormType::RmsNorm;
  if (model.bias) return refuse("rotary positions with biases");
  if (model.parallel_block) {
    const bool is_command_r = has_swiglu && !has_rms_norm && !model.has_experts() &&
                              model.window == 0 && !model.has_latents();
    if (is_command_r) return ForeignFamily::Cohere;
    return refuse(
        "attention and MLP beside each other (model.parallel_block) without swiglu and layer_norm, "
        "or with experts, a window or latents");
  }
  if (!has_rms_norm) return refuse("rotary positions with layer_norm");
  if (model.has_latents()) return latent_family(model);
  if (model.has_experts()) return expert_family(model);
  if (has_swiglu && model.qk_norm) return ForeignFamily::Qwen3;
  if (has_swiglu) return model.window > 0 ? ForeignFamily::Mistral : ForeignFamily::Llama;
  if (model.qk_norm) return refuse("a norm of queries and keys without swiglu");
  if (model.window > 0) return refuse("a window without swiglu");
  if (model.mlp == MlpType::Relu2) return ForeignFamily::Arcee;
  return refuse("rotary positions without swiglu or relu2");
}

}  // namespace

Result<ModelSpec> resolve_foreign(const ModelConfig& config) {
  auto model = resolve_model(config, 0);
  if (!model.ok()) return damaged(model.error().message);
  return model;
}

Result<ForeignFamily> foreign_family(const ModelSpec& model) {
  if (model.mtp_depth > 0) {
    TRIREME_TRY(family, foreign_family(without_modules(model)));
    if (family == ForeignFamily::DeepseekV3) return family;
    return Error{ErrorKind::Infeasible,
                 "the model has modules of multi-token prediction (model.mtp_depth), and of the "
                 "models that can be written only DeepSeek-V3 has them"};
  }
  if (model.layer_scale != 0.0) return refuse("gains of its blocks (model.layer_scale)");
  if (model.embedding_norm) return refuse("a norm after the embedding (model.embedding_norm)");
  if (!model.final_norm) return refuse("no norm before the head (model.final_norm)");
  if (model.rope) return rotary_family(model);
  if (model.has_experts()) return refuse("experts without rotary positions");
  if (model.parallel_block) return refuse("learned positions with model.parallel_block");
  if (model.window > 0) return refuse("learned positions with a window");
  if (model.qk_norm) return refuse("learned positions with a norm of queries and keys");
  if (model.norm != NormType::LayerNorm) return refuse("learned positions with rms_norm");
  if (model.mlp == MlpType::Swiglu) return refuse("learned positions with swiglu");
  if (model.kv_heads != model.heads)
    return refuse("learned positions with grouped keys and values");
  if (!has_even_heads(model)) {
    return refuse("learned positions with heads * head_dim other than d_model");
  }
  return ForeignFamily::Gpt2;
}

}  // namespace trireme
