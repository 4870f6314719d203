#include "interchange/gguf_latents.h"

#include "interchange/foreign_family.h"

namespace trireme {
namespace {

constexpr int64_t kSigmoid = 2;       // a number of .expert_gating_func
constexpr double kOfLogarithm = 0.1;  // programs that write the file multiply mscale by this

void add_yarn_keys(const ModelSpec& model, KeyAdder& keys) {
  if (model.rope_scaling_factor == 1.0) return;
  keys.word(".rope.scaling.type", "yarn");
  keys.real(".rope.scaling.factor", model.rope_scaling_factor);
  keys.count(".rope.scaling.original_context_length", model.rope_original_seq_len);
  keys.real(".rope.scaling.yarn_log_multiplier", kOfLogarithm * model.rope_mscale);
  keys.real(".rope.scaling.yarn_beta_fast", model.rope_high_freq_factor);
  keys.real(".rope.scaling.yarn_beta_slow", model.rope_low_freq_factor);
}

void read_yarn_keys(const GgufHeader& header, const std::string& rope, ModelConfig& model) {
  if (header.find(rope + ".type") == nullptr) return;
  const std::string type = word_of(header, rope + ".type");
  if (type == "none") return;
  if (type != "yarn") {
    throw KeyError{ErrorKind::Infeasible,
                   rope + ".type = \"" + type + "\": yarn is supported beside latent attention"};
  }
  model.rope_scaling = RopeScaling::Yarn;
  model.rope_scaling_factor = real_of(header, rope + ".factor");
  model.rope_original_seq_len = count_of(header, rope + ".original_context_length");
  model.rope_mscale = real_of(header, rope + ".yarn_log_multiplier") / kOfLogarithm;
  model.rope_high_freq_factor = real_of(header, rope + ".yarn_beta_fast", 32.0);
  model.rope_low_freq_factor = real_of(header, rope + ".yarn_beta_slow", 1.0);
}

bool flag_of(const GgufHeader& header, const std::string& key) {
  const GgufValue* value = header.find(key);
  const auto* flag = value == nullptr ? nullptr : std::get_if<bool>(&value->value);
  return flag != nullptr && *flag;
}

// Weights of experts that are not divided by their sum, and a softmax, are those of DeepSeek-V2.
void read_latent_experts(const GgufHeader& header, const std::string& name, ModelConfig& model) {
  const auto refuse = [](const std::string& what) {
    throw KeyError{ErrorKind::Infeasible, what + " is not supported beside latent attention"};
  };
  if (!flag_of(header, name + ".expert_weights_norm")) {
    refuse(name + ".expert_weights_norm other than true");
  }
  if (count_of(header, name + ".expert_gating_func", 1) != kSigmoid) {
    refuse(name + ".expert_gating_func other than 2, the sigmoid,");
  }
  model.family = ModelFamily::Moe;
  model.router = RouterType::Sigmoid;
  model.experts = count_of(header, name + ".expert_count");
  model.top_k = count_of(header, name + ".expert_used_count");
  model.shared_experts = count_of(header, name + ".expert_shared_count", 0);
  model.expert_groups = count_of(header, name + ".expert_group_count", 1);
  model.top_groups = count_of(header, name + ".expert_group_used_count", 1);
  model.routed_scaling = real_of(header, name + ".expert_weights_scale", 1.0);
  model.dense_layers = count_of(header, name + ".leading_dense_block_count", 0);
  if (model.dense_layers > 0) model.dense_d_ff = model.d_ff;
  model.d_ff = count_of(header, name + ".expert_feed_forward_length");
  if (model.experts * model.layers > kMostForeignExperts) {
    throw KeyError{ErrorKind::Damaged, name + ".expert_count is too great for its layers"};
  }
  const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", model.dense_layers);
  if (header.find_tensor(bias) != nullptr) model.balance_rate = kForeignBalanceRate;
}

}  // namespace

void add_latent_keys(const ModelSpec& model, KeyAdder& keys) {
  keys.count(".attention.head_count_kv", 1);
  keys.count(".attention.key_length", model.kv_lora_rank + model.qk_rope_head_dim);
  keys.count(".attention.value_length", model.kv_lora_rank);
  keys.count(".attention.key_length_mla", model.key_dim());
  keys.count(".attention.value_length_mla", model.v_head_dim);
  keys.count(".attention.q_lora_rank", model.q_lora_rank);
  keys.count(".attention.kv_lora_rank", model.kv_lora_rank);
  keys.count(".rope.dimension_count", model.qk_rope_head_dim);
  keys.real(".rope.freq_base", model.rope_theta);
  add_yarn_keys(model, keys);
  keys.count(".expert_count", model.experts);
  keys.count(".expert_used_count", model.top_k);
  keys.count(".expert_shared_count", model.shared_experts);
  keys.count(".expert_feed_forward_length", model.d_ff);
  keys.count(".expert_group_count", model.expert_groups);
  keys.count(".expert_group_used_count", model.top_groups);
  keys.count(".leading_dense_block_count", model.dense_layers);
  keys.count(".expert_gating_func", kSigmoid);
  keys.flag(".expert_weights_norm", true);
  keys.real(".expert_weights_scale", model.routed_scaling);
}

void add_latent_tensors(ForeignTensorList& list, const ModelSpec& model, const std::string& theirs,
                        const std::string& ours) {
  const int64_t turned = model.qk_rope_head_dim;
  list.norm(theirs + "attn_norm", ours + "norm1", false);
  if (model.q_lora_rank > 0) {
    list.add(theirs + "attn_q_a.weight", {ours + "attn.wq_down"});
    list.inner_norm(theirs + "attn_q_a_norm", ours + "attn.q_norm", model.q_lora_rank);
    list.add_turned(theirs + "attn_q_b.weight", {ours + "attn.wq_up"}, model.key_dim(), turned);
  } else {
    list.add_turned(theirs + "attn_q.weight", {ours + "attn.wq"}, model.key_dim(), turned);
  }
  list.add_turned(theirs + "attn_kv_a_mqa.weight",
                  {ours + "attn.wkv_down", ours + "attn.shared.wk"}, model.kv_lora_rank + turned,
                  turned);
  list.inner_norm(theirs + "attn_kv_a_norm", ours + "attn.kv_norm", model.kv_lora_rank);
  list.add_heads(theirs + "attn_k_b.weight", ours + "attn.wk_up", model.heads, true);
  list.add_heads(theirs + "attn_v_b.weight", ours + "attn.wv_up", model.heads, false);
  list.add(theirs + "attn_output.weight", {ours + "attn.wo"});
}

void read_latents(const GgufHeader& header, const std::string& name, ModelConfig& model) {
  const std::string attention = name + ".attention";
  model.family = ModelFamily::Llama;
  model.activation = ActivationChoice::Swiglu;
  model.bias = false;
  model.kv_heads = 0;
  model.kv_lora_rank = count_of(header, attention + ".kv_lora_rank");
  model.q_lora_rank = count_of(header, attention + ".q_lora_rank", 0);
  model.qk_rope_head_dim = count_of(header, name + ".rope.dimension_count");
  model.v_head_dim = count_of(header, attention + ".value_length_mla");
  const int64_t key_dim = count_of(header, attention + ".key_length_mla");
  if (model.kv_lora_rank < 1 || key_dim <= model.qk_rope_head_dim || model.v_head_dim < 1) {
    throw KeyError{ErrorKind::Damaged, attention +
                                           ": the widths of latents and heads contradict "
                                           "each other"};
  }
  model.head_dim = key_dim - model.qk_rope_head_dim;
  model.rope_theta = real_of(header, name + ".rope.freq_base", 10000.0);
  read_yarn_keys(header, name + ".rope.scaling", model);
  read_latent_experts(header, name, model);
}

}  // namespace trireme
