#include "interchange/foreign_family.h"

namespace trireme {

Result<ModelSpec> resolve_foreign(const ModelConfig& config) {
  auto model = resolve_model(config, 0);
  if (!model.ok()) return damaged(model.error().message);
  return model;
}

ForeignFamily family_of(const ModelConfig& config) {
  switch (config.family) {
    case ModelFamily::Llama:
      return ForeignFamily::Llama;
    case ModelFamily::Moe:
      return ForeignFamily::Mixtral;
    default:
      return ForeignFamily::Gpt2;
  }
}

Result<ForeignFamily> foreign_family(const ModelSpec& model) {
  const auto refuse = [](const std::string& what) {
    return Error{ErrorKind::Infeasible,
                 "the model has " + what + ": neither GPT-2, Llama nor Mixtral can hold it"};
  };
  if (model.parallel_block) {
    return refuse("attention and MLP beside each other (model.parallel_block)");
  }
  if (model.layer_scale != 0.0) return refuse("gains of its blocks (model.layer_scale)");
  if (model.embedding_norm) return refuse("a norm after the embedding (model.embedding_norm)");
  if (!model.final_norm) return refuse("no norm before the head (model.final_norm)");
  if (model.mlp == MlpType::Swiglu && model.norm == NormType::RmsNorm && model.rope &&
      !model.bias) {
    if (!model.has_experts()) return ForeignFamily::Llama;
    if (model.router != RouterType::Softmax) return refuse("a sigmoid router");
    if (model.shared_experts > 0) return refuse("shared experts (model.shared_experts)");
    if (model.dense_layers > 0) return refuse("layers without experts (model.dense_layers)");
    if (model.expert_groups > 1) return refuse("groups of experts (model.expert_groups)");
    if (model.balance_rate > 0.0) return refuse("a bias of its router (model.balance_rate)");
    if (model.capacity_factor > 0.0)
      return refuse("experts with a capacity (model.capacity_factor)");
    return ForeignFamily::Mixtral;
  }
  if (model.has_experts()) return refuse("experts without rotary positions and rms_norm");
  if (model.rope) return refuse("rotary positions without swiglu and rms_norm");
  if (model.norm != NormType::LayerNorm) return refuse("learned positions with rms_norm");
  if (model.mlp == MlpType::Swiglu) return refuse("learned positions with swiglu");
  if (model.kv_heads != model.heads)
    return refuse("learned positions with grouped keys and values");
  if (model.heads * model.head_dim != model.d_model) {
    return refuse("learned positions with heads * head_dim other than d_model");
  }
  return ForeignFamily::Gpt2;
}

}  // namespace trireme
