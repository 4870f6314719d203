#include "interchange/gguf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <optional>

#include "interchange/foreign_tensor_list.h"

namespace trireme {
namespace {

// Keys of our own: the standard keys store rotary scaling as a table, from which the numbers cannot
// be recovered.
constexpr const char* kScaling[] = {"trireme.rope_scaling_factor", "trireme.rope_low_freq_factor",
                                    "trireme.rope_high_freq_factor"};
constexpr const char* kOriginalSeqLen = "trireme.rope_original_seq_len";

struct KeyError {
  ErrorKind kind;
  std::string message;
};

const GgufValue* find(const GgufHeader& header, const std::string& key, bool required) {
  const GgufValue* value = header.find(key);
  if (value == nullptr && required) throw KeyError{ErrorKind::Damaged, "no key " + key};
  return value;
}

int64_t count(const GgufHeader& header, const std::string& key,
              std::optional<int64_t> otherwise = {}) {
  const GgufValue* value = find(header, key, !otherwise);
  if (value == nullptr) return *otherwise;
  const auto* number = std::get_if<uint64_t>(&value->value);
  if (number == nullptr || *number > uint64_t{1} << 24)
    throw KeyError{ErrorKind::Damaged, key + " is not a count below 2^24"};
  return static_cast<int64_t>(*number);
}

// Reads an F32 as the shortest decimal number that rounds to it: 1e-05, not 9.99999974e-06.
double real(const GgufHeader& header, const std::string& key,
            std::optional<double> otherwise = {}) {
  const GgufValue* value = find(header, key, !otherwise);
  if (value == nullptr) return *otherwise;
  const auto* number = std::get_if<double>(&value->value);
  if (number == nullptr) throw KeyError{ErrorKind::Damaged, key + " is not a real number"};
  if (value->type == GgufType::F64) return *number;
  return std::strtod(fmt::format("{}", static_cast<float>(*number)).c_str(), nullptr);
}

std::string word(const GgufHeader& header, const std::string& key) {
  const GgufValue* value = find(header, key, true);
  const auto* text = std::get_if<std::string>(&value->value);
  if (text == nullptr) throw KeyError{ErrorKind::Damaged, key + " is not a string"};
  return *text;
}

void read_scaling(const GgufHeader& header, ModelConfig& model) {
  if (header.find("llama.rope.scaling.type") != nullptr &&
      word(header, "llama.rope.scaling.type") != "none") {
    throw KeyError{ErrorKind::Infeasible,
                   "llama.rope.scaling.type: scaled positions are not supported"};
  }
  if (header.find_tensor("rope_freqs.weight") == nullptr) return;
  if (header.find(kScaling[0]) == nullptr) {
    throw KeyError{ErrorKind::Infeasible,
                   "rope_freqs.weight: a table of scaled positions by another program is not read"};
  }
  model.rope_scaling_factor = real(header, kScaling[0]);
  model.rope_low_freq_factor = real(header, kScaling[1]);
  model.rope_high_freq_factor = real(header, kScaling[2]);
  model.rope_original_seq_len = count(header, kOriginalSeqLen);
}

ModelConfig read_model(const GgufHeader& header) {
  const std::string family = word(header, "general.architecture");
  if (family != "gpt2" && family != "llama") {
    throw KeyError{ErrorKind::Infeasible,
                   "general.architecture is \"" + family + "\"; gpt2 and llama are supported"};
  }
  const bool is_llama = family == "llama";
  ModelConfig model{.family = is_llama ? ModelFamily::Llama : ModelFamily::Gpt2};
  model.layers = count(header, family + ".block_count");
  if (model.layers > static_cast<int64_t>(header.tensors.size())) {
    throw KeyError{ErrorKind::Damaged,
                   fmt::format("{}.block_count = {}, but the file has {} tensors in all", family,
                               model.layers, header.tensors.size())};
  }
  model.d_model = count(header, family + ".embedding_length");
  model.heads = count(header, family + ".attention.head_count");
  model.d_ff = count(header, family + ".feed_forward_length");
  model.seq_len = count(header, family + ".context_length");
  const GgufTensor* embedding = header.find_tensor("token_embd.weight");
  if (embedding == nullptr) throw KeyError{ErrorKind::Damaged, "no tensor token_embd.weight"};
  model.vocab_size = embedding->shape[0];
  model.tied_head = header.find_tensor("output.weight") == nullptr;
  if (!is_llama) {
    model.norm_eps = real(header, "gpt2.attention.layer_norm_epsilon");
    return model;
  }
  model.activation = ActivationChoice::Swiglu;
  model.bias = false;
  model.kv_heads = count(header, "llama.attention.head_count_kv", model.heads);
  model.head_dim = count(header, "llama.attention.key_length", 0);
  model.norm_eps = real(header, "llama.attention.layer_norm_rms_epsilon");
  model.rope_theta = real(header, "llama.rope.freq_base", 10000.0);
  read_scaling(header, model);
  const int64_t experts = count(header, "llama.expert_count", 0);
  if (experts == 0) return model;
  model.family = ModelFamily::Moe;
  model.experts = experts;
  model.top_k = count(header, "llama.expert_used_count");
  if (model.experts * model.layers > kMostForeignExperts) {
    throw KeyError{ErrorKind::Damaged, "llama.expert_count is too great for its layers"};
  }
  return model;
}

// GGUF stores each kind of matrix of all experts as one tensor.
void add_experts(ForeignTensorList& list, const std::string& theirs, const std::string& ours) {
  list.add(theirs + "ffn_gate_inp.weight", {ours + "mlp.router"});
  list.add_experts(theirs + "ffn_gate_exps.weight", ours, {"w_gate"});
  list.add_experts(theirs + "ffn_up_exps.weight", ours, {"w_up"});
  list.add_experts(theirs + "ffn_down_exps.weight", ours, {"w_down"});
}

void add_rope(const ModelSpec& model, GgufHeader& header) {
  header.values.emplace_back("llama.rope.dimension_count", gguf_u32(uint64_t(model.head_dim)));
  header.values.emplace_back("llama.rope.freq_base", gguf_f32(model.rope_theta));
  if (model.rope_scaling_factor == 1.0) return;
  const double numbers[] = {model.rope_scaling_factor, model.rope_low_freq_factor,
                            model.rope_high_freq_factor};
  for (int i = 0; i < 3; ++i) header.values.emplace_back(kScaling[i], gguf_f64(numbers[i]));
  header.values.emplace_back(kOriginalSeqLen, gguf_u32(uint64_t(model.rope_original_seq_len)));
}

}  // namespace

Status add_gguf_model(const ModelSpec& model, GgufHeader& header) {
  TRIREME_TRY(family, foreign_family(model));
  // GGUF stores Mixtral as a llama with experts
  const bool is_llama = family != ForeignFamily::Gpt2;
  if (!is_llama && model.mlp != MlpType::GeluTanh) {
    return Error{ErrorKind::Infeasible,
                 "a GGUF of gpt2 means GELU by tanh; the model has another activation"};
  }
  const std::string name = is_llama ? "llama" : "gpt2";
  const auto add = [&](const std::string& key, GgufValue value) {
    header.values.emplace_back(name + "." + key, std::move(value));
  };
  header.values.emplace_back("general.architecture", gguf_string(name));
  add("context_length", gguf_u32(uint64_t(model.seq_len)));
  add("embedding_length", gguf_u32(uint64_t(model.d_model)));
  add("feed_forward_length", gguf_u32(uint64_t(model.d_ff)));
  add("block_count", gguf_u32(uint64_t(model.layers)));
  add("attention.head_count", gguf_u32(uint64_t(model.heads)));
  add("vocab_size", gguf_u32(uint64_t(model.vocab_size)));
  if (!is_llama) {
    add("attention.layer_norm_epsilon", gguf_f32(model.norm_eps));
    return Done{};
  }
  add("attention.head_count_kv", gguf_u32(uint64_t(model.kv_heads)));
  add("attention.key_length", gguf_u32(uint64_t(model.head_dim)));
  add("attention.value_length", gguf_u32(uint64_t(model.head_dim)));
  add("attention.layer_norm_rms_epsilon", gguf_f32(model.norm_eps));
  if (model.has_experts()) {
    add("expert_count", gguf_u32(uint64_t(model.experts)));
    add("expert_used_count", gguf_u32(uint64_t(model.top_k)));
  }
  add_rope(model, header);
  return Done{};
}

Result<ModelConfig> gguf_model_of(const GgufHeader& header) {
  try {
    const ModelConfig model = read_model(header);
    if (model.heads > (int64_t{1} << 24) / std::max<int64_t>(1, model.head_dim) ||
        !(model.norm_eps > 0.0)) {
      return Error{ErrorKind::Damaged, "the numbers of the model contradict each other"};
    }
    return model;
  } catch (const KeyError& failure) {
    return Error{failure.kind, failure.message};
  }
}

std::vector<ForeignTensor> gguf_tensors(const ModelSpec& model, ForeignFamily family) {
  // GGUF stores Mixtral as a llama with experts
  const bool is_llama = family != ForeignFamily::Gpt2;
  ForeignTensorList list(model);
  list.add("token_embd.weight", {"embedding.tokens"});
  if (!is_llama) list.add("position_embd.weight", {"embedding.positions"});
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string theirs = fmt::format("blk.{}.", i);
    const std::string ours = fmt::format("layers.{}.", i);
    list.norm(theirs + "attn_norm", ours + "norm1", !is_llama);
    if (is_llama) {
      list.add_interleaved(theirs + "attn_q.weight", ours + "attn.wq");
      list.add_interleaved(theirs + "attn_k.weight", ours + "attn.wk");
      list.add(theirs + "attn_v.weight", {ours + "attn.wv"});
      list.add(theirs + "attn_output.weight", {ours + "attn.wo"});
      list.norm(theirs + "ffn_norm", ours + "norm2", false);
      if (model.has_experts()) {
        add_experts(list, theirs, ours);
        continue;
      }
      list.add(theirs + "ffn_gate.weight", {ours + "mlp.w_gate"});
      list.add(theirs + "ffn_up.weight", {ours + "mlp.w_up"});
      list.add(theirs + "ffn_down.weight", {ours + "mlp.w_down"});
      continue;
    }
    list.linear(theirs + "attn_qkv", {ours + "attn.wq", ours + "attn.wk", ours + "attn.wv"},
                {ours + "attn.bq", ours + "attn.bk", ours + "attn.bv"});
    list.linear(theirs + "attn_output", {ours + "attn.wo"}, {ours + "attn.bo"});
    list.norm(theirs + "ffn_norm", ours + "norm2", true);
    list.linear(theirs + "ffn_up", {ours + "mlp.w_up"}, {ours + "mlp.b_up"});
    list.linear(theirs + "ffn_down", {ours + "mlp.w_down"}, {ours + "mlp.b_down"});
  }
  list.norm("output_norm", "final_norm", !is_llama);
  if (list.has("head.weight")) list.add("output.weight", {"head.weight"});
  return list.take();
}

std::vector<float> gguf_rope_freqs(const ModelSpec& model) {
  std::vector<float> divisors;
  if (!model.rope || model.rope_scaling_factor == 1.0) return divisors;
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
