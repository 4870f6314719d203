#include "interchange/gguf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "interchange/gguf_keys.h"
#include "interchange/gguf_latents.h"

namespace trireme {
namespace {

// Keys of our own: the standard keys store rotary scaling as a table, from which the numbers cannot
// be recovered.
constexpr const char* kScaling[] = {"trireme.rope_scaling_factor", "trireme.rope_low_freq_factor",
                                    "trireme.rope_high_freq_factor"};
constexpr const char* kOriginalSeqLen = "trireme.rope_original_seq_len";

// general.architecture of a family. Mixtral is a llama with experts.
std::string architecture_of(ForeignFamily family) {
  switch (family) {
    case ForeignFamily::Gpt2:
      return "gpt2";
    case ForeignFamily::Llama:
    case ForeignFamily::Mixtral:
    case ForeignFamily::Mistral:
      return "llama";
    case ForeignFamily::Arcee:
      return "arcee";
    case ForeignFamily::Cohere:
      return "command-r";
    case ForeignFamily::Deepseek:
      return "deepseek";
    case ForeignFamily::Ernie:
      return "ernie4_5-moe";
    case ForeignFamily::Qwen3:
      return "qwen3";
    case ForeignFamily::Qwen3Moe:
      return "qwen3moe";
    case ForeignFamily::DeepseekV3:
      return "deepseek2";
  }
  return {};
}

constexpr const char* kUndivided =
    "a GGUF of deepseek means weights of experts that are not divided by their sum";

ForeignFamily family_of(const GgufHeader& header) {
  const std::string name = word_of(header, "general.architecture");
  if (name == architecture_of(ForeignFamily::Deepseek)) {
    throw KeyError{ErrorKind::Infeasible, std::string(kUndivided) + "; ours are"};
  }
  if (name == "llama" && count_of(header, "llama.expert_count", 0) > 0)
    return ForeignFamily::Mixtral;
  for (const ForeignFamily family :
       {ForeignFamily::Gpt2, ForeignFamily::Llama, ForeignFamily::Arcee, ForeignFamily::Cohere,
        ForeignFamily::Ernie, ForeignFamily::Qwen3, ForeignFamily::Qwen3Moe,
        ForeignFamily::DeepseekV3}) {
    if (name == architecture_of(family)) return family;
  }
  throw KeyError{ErrorKind::Infeasible,
                 "general.architecture is \"" + name +
                     "\"; gpt2, llama, arcee, command-r, ernie4_5-moe, qwen3, qwen3moe and "
                     "deepseek2 are supported"};
}

const char* norm_eps_key(ForeignFamily family) {
  const bool has_layer_norm = family == ForeignFamily::Gpt2 || family == ForeignFamily::Cohere;
  return has_layer_norm ? ".attention.layer_norm_epsilon" : ".attention.layer_norm_rms_epsilon";
}

void read_scaling(const GgufHeader& header, const std::string& name, ModelConfig& model) {
  const std::string type = name + ".rope.scaling.type";
  if (header.find(type) != nullptr && word_of(header, type) != "none") {
    throw KeyError{ErrorKind::Infeasible, type + ": scaled positions are not supported"};
  }
  if (header.find_tensor("rope_freqs.weight") == nullptr) return;
  if (header.find(kScaling[0]) == nullptr) {
    throw KeyError{ErrorKind::Infeasible,
                   "rope_freqs.weight: a table of scaled positions by another program is not read"};
  }
  model.rope_scaling_factor = real_of(header, kScaling[0]);
  model.rope_low_freq_factor = real_of(header, kScaling[1]);
  model.rope_high_freq_factor = real_of(header, kScaling[2]);
  model.rope_original_seq_len = count_of(header, kOriginalSeqLen);
}

void read_experts(const GgufHeader& header, const std::string& name, ModelConfig& model) {
  model.family = ModelFamily::Moe;
  model.experts = count_of(header, name + ".expert_count");
  model.top_k = count_of(header, name + ".expert_used_count");
  if (model.experts * model.layers > kMostForeignExperts) {
    throw KeyError{ErrorKind::Damaged, name + ".expert_count is too great for its layers"};
  }
}

// The first layers have no experts, and the others may have shared ones.
void read_leading_dense_layers(const GgufHeader& header, const std::string& name,
                               ModelConfig& model) {
  model.dense_layers = count_of(header, name + ".leading_dense_block_count");
  if (model.dense_layers > 0) model.dense_d_ff = model.d_ff;
  model.d_ff = count_of(header, name + ".expert_feed_forward_length");
  const std::string shared_key = name + ".expert_shared_feed_forward_length";
  const int64_t shared = count_of(header, shared_key, 0);
  if (model.d_ff < 1 || shared % model.d_ff != 0) {
    throw KeyError{ErrorKind::Infeasible,
                   shared_key + ": shared experts are as wide as the others here"};
  }
  model.shared_experts = shared / model.d_ff;
  if (count_of(header, name + ".interleave_moe_layer_step", 1) != 1) {
    throw KeyError{ErrorKind::Infeasible,
                   name +
                       ".interleave_moe_layer_step: only the first layers may be without "
                       "experts"};
  }
  const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", model.dense_layers);
  if (header.find_tensor(bias) != nullptr) model.balance_rate = kForeignBalanceRate;
}

void read_logit_scale(const GgufHeader& header, const std::string& name, GgufModel& model) {
  model.config.norm = NormChoice::LayerNorm;
  model.config.parallel_block = true;
  model.logit_scale = real_of(header, name + ".logit_scale", 1.0);
  if (!(model.logit_scale > 0.0 && std::isfinite(model.logit_scale))) {
    throw KeyError{ErrorKind::Damaged, name + ".logit_scale is not positive"};
  }
}

void read_rotary(const GgufHeader& header, const std::string& name, GgufModel& described) {
  ModelConfig& model = described.config;
  model.family = ModelFamily::Llama;
  model.activation =
      described.family == ForeignFamily::Arcee ? ActivationChoice::Relu2 : ActivationChoice::Swiglu;
  model.bias = false;
  model.kv_heads = count_of(header, name + ".attention.head_count_kv", model.heads);
  model.head_dim = count_of(header, name + ".attention.key_length", 0);
  model.rope_theta = real_of(header, name + ".rope.freq_base", 10000.0);
  read_scaling(header, name, model);
  if (described.family == ForeignFamily::Cohere) read_logit_scale(header, name, described);
  if (described.family == ForeignFamily::Ernie) read_leading_dense_layers(header, name, model);
  const bool is_qwen_moe = described.family == ForeignFamily::Qwen3Moe;
  model.qk_norm = is_qwen_moe || described.family == ForeignFamily::Qwen3;
  if (is_qwen_moe) model.d_ff = count_of(header, name + ".expert_feed_forward_length");
  const bool has_experts = is_qwen_moe || described.family == ForeignFamily::Mixtral ||
                           described.family == ForeignFamily::Ernie;
  if (has_experts) read_experts(header, name, model);
}

GgufModel read_model(const GgufHeader& header) {
  GgufModel described{.family = family_of(header)};
  const std::string name = architecture_of(described.family);
  ModelConfig& model = described.config;
  model.layers = count_of(header, name + ".block_count");
  if (model.layers > static_cast<int64_t>(header.tensors.size())) {
    throw KeyError{ErrorKind::Damaged,
                   fmt::format("{}.block_count = {}, but the file has {} tensors in all", name,
                               model.layers, header.tensors.size())};
  }
  model.d_model = count_of(header, name + ".embedding_length");
  model.heads = count_of(header, name + ".attention.head_count");
  model.d_ff = count_of(header, name + ".feed_forward_length");
  model.seq_len = count_of(header, name + ".context_length");
  model.norm_eps = real_of(header, name + norm_eps_key(described.family));
  const GgufTensor* embedding = header.find_tensor("token_embd.weight");
  if (embedding == nullptr) throw KeyError{ErrorKind::Damaged, "no tensor token_embd.weight"};
  model.vocab_size = embedding->shape[0];
  model.tied_head = header.find_tensor("output.weight") == nullptr;
  if (described.family == ForeignFamily::DeepseekV3) {
    read_latents(header, name, model);
  } else if (described.family != ForeignFamily::Gpt2) {
    read_rotary(header, name, described);
  }
  return described;
}

Status check_gguf(const ModelSpec& model, ForeignFamily family) {
  const auto refuse = [](const std::string& why) { return Error{ErrorKind::Infeasible, why}; };
  const bool is_cohere = family == ForeignFamily::Cohere;
  if (family == ForeignFamily::Deepseek) {
    return refuse(std::string(kUndivided) +
                  "; a Hugging Face folder (--format hf) can hold this model with its shared "
                  "experts or dense "
                  "layers, and so can a GGUF if it was trained with model.balance_rate above 0");
  }
  if (family == ForeignFamily::DeepseekV3) {
    if (model.mtp_depth > 0) {
      return refuse(
          "a GGUF of deepseek2 has no modules of multi-token prediction (model.mtp_depth); a "
          "Hugging Face folder (--format hf) can hold this model");
    }
    if (model.has_experts()) return Done{};
    return refuse(
        "a GGUF of deepseek2 means layers with experts; a Hugging Face folder (--format hf) can "
        "hold this model");
  }
  if (model.window > 0 && model.window < model.seq_len) {
    return refuse("a GGUF of " + architecture_of(family) +
                  " means attention to all keys, but the model has a window (model.window); a "
                  "Hugging Face folder (--format hf) can hold it");
  }
  if (model.rope_scaling == RopeScaling::Yarn && model.rope_scaling_factor != 1.0) {
    return refuse(
        "positions that YaRN scales are not written to a GGUF; a Hugging Face folder "
        "(--format hf) can hold this model");
  }
  if (family == ForeignFamily::Gpt2 && model.mlp != MlpType::GeluTanh) {
    return refuse("a GGUF of gpt2 means GELU by tanh; the model has another activation");
  }
  if (is_cohere && !model.tied_head) return refuse("a GGUF of command-r has a tied head");
  const bool is_qwen = family == ForeignFamily::Qwen3 || family == ForeignFamily::Qwen3Moe;
  const bool has_table = !is_cohere && !is_qwen && family != ForeignFamily::Ernie;
  if (!has_table && model.rope_scaling_factor != 1.0) {
    return refuse("a GGUF of " + architecture_of(family) + " has no table of scaled positions");
  }
  return Done{};
}

void add_rope(const ModelSpec& model, KeyAdder& keys, GgufHeader& header) {
  keys.count(".rope.dimension_count", model.head_dim);
  keys.real(".rope.freq_base", model.rope_theta);
  if (model.rope_scaling_factor == 1.0) return;
  const double numbers[] = {model.rope_scaling_factor, model.rope_low_freq_factor,
                            model.rope_high_freq_factor};
  for (int i = 0; i < 3; ++i) header.values.emplace_back(kScaling[i], gguf_f64(numbers[i]));
  header.values.emplace_back(kOriginalSeqLen, gguf_u32(uint64_t(model.rope_original_seq_len)));
}

void add_expert_keys(const ModelSpec& model, ForeignFamily family, KeyAdder& keys) {
  keys.count(".expert_count", model.experts);
  keys.count(".expert_used_count", model.top_k);
  if (family == ForeignFamily::Qwen3Moe) keys.count(".expert_feed_forward_length", model.d_ff);
  if (family != ForeignFamily::Ernie) return;
  keys.count(".leading_dense_block_count", model.dense_layers);
  keys.count(".interleave_moe_layer_step", 1);
  keys.count(".expert_feed_forward_length", model.d_ff);
  keys.count(".expert_shared_count", model.shared_experts);
  keys.count(".expert_shared_feed_forward_length", model.shared_width());
}

}  // namespace

Status add_gguf_model(const ModelSpec& model, GgufHeader& header) {
  TRIREME_TRY(family, foreign_family(model));
  TRIREME_TRY_DONE(check_gguf(model, family));
  const std::string name = architecture_of(family);
  KeyAdder keys(header, name);
  header.values.emplace_back("general.architecture", gguf_string(name));
  keys.count(".context_length", model.seq_len);
  keys.count(".embedding_length", model.d_model);
  keys.count(".feed_forward_length", model.dense_layers > 0 ? model.dense_d_ff : model.d_ff);
  keys.count(".block_count", model.layers);
  keys.count(".attention.head_count", model.heads);
  keys.count(".vocab_size", model.vocab_size);
  keys.real(norm_eps_key(family), model.norm_eps);
  if (family == ForeignFamily::Gpt2) return Done{};
  if (model.has_latents()) {
    add_latent_keys(model, keys);
    return Done{};
  }
  keys.count(".attention.head_count_kv", model.kv_heads);
  keys.count(".attention.key_length", model.head_dim);
  keys.count(".attention.value_length", model.head_dim);
  if (family == ForeignFamily::Cohere) keys.real(".logit_scale", 1.0);  // the final norm has it
  if (model.has_experts()) add_expert_keys(model, family, keys);
  add_rope(model, keys, header);
  return Done{};
}

Result<GgufModel> gguf_model_of(const GgufHeader& header) {
  try {
    GgufModel described = read_model(header);
    const ModelConfig& model = described.config;
    if (model.heads > (int64_t{1} << 24) / std::max<int64_t>(1, model.head_dim) ||
        !(model.norm_eps > 0.0)) {
      return Error{ErrorKind::Damaged, "the numbers of the model contradict each other"};
    }
    return described;
  } catch (const KeyError& failure) {
    return Error{failure.kind, failure.message};
  }
}

std::vector<float> gguf_rope_freqs(const ModelSpec& model) {
  std::vector<float> divisors;
  if (!model.rope || model.rope_scaling_factor == 1.0 || model.has_latents()) return divisors;
  const double original = static_cast<double>(model.rope_original_seq_len);
  for (int64_t pair = 0; pair < model.head_dim / 2; ++pair) {
    const double exponent = 2.0 * double(pair) / double(model.head_dim);
    const double turns = original / (2.0 * std::numbers::pi * std::pow(model.rope_theta, exponent));
    double divisor = model.rope_scaling_factor;
    if (turns > model.rope_high_freq_factor) {
      divisor = 1.0;
    } else if (turns >= model.rope_low_freq_factor) {
      const double smooth = (turns - model.rope_low_freq_factor) /
                            (model.rope_high_freq_factor - model.rope_low_freq_factor);
      divisor = 1.0 / ((1.0 - smooth) / model.rope_scaling_factor + smooth);
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

}  // namespace trireme
