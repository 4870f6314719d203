#include "interchange/hugging_face_tensors.h"

#include <fmt/format.h>

#include <charconv>

#include "graph/model_graphs.h"
#include "interchange/foreign_tensor_list.h"

namespace trireme {
namespace {

std::vector<ForeignTensor> gpt2_tensors(const ModelSpec& model) {
  ForeignTensorList list(model);
  list.add("transformer.wte.weight", {"embedding.tokens"});
  list.add("transformer.wpe.weight", {"embedding.positions"});
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string theirs = fmt::format("transformer.h.{}.", i);
    const std::string ours = fmt::format("layers.{}.", i);
    list.norm(theirs + "ln_1", ours + "norm1", true);
    list.transposed_linear(theirs + "attn.c_attn",
                           {ours + "attn.wq", ours + "attn.wk", ours + "attn.wv"},
                           {ours + "attn.bq", ours + "attn.bk", ours + "attn.bv"});
    list.transposed_linear(theirs + "attn.c_proj", {ours + "attn.wo"}, {ours + "attn.bo"});
    list.norm(theirs + "ln_2", ours + "norm2", true);
    list.transposed_linear(theirs + "mlp.c_fc", {ours + "mlp.w_up"}, {ours + "mlp.b_up"});
    list.transposed_linear(theirs + "mlp.c_proj", {ours + "mlp.w_down"}, {ours + "mlp.b_down"});
  }
  list.final_norm("transformer.ln_f", true);
  if (list.has("head.weight")) list.add("lm_head.weight", {"head.weight"});
  return list.take();
}

void add_mlp(ForeignTensorList& list, const std::string& theirs, const std::string& ours) {
  if (list.has(ours + "w_gate")) list.add(theirs + "gate_proj.weight", {ours + "w_gate"});
  list.add(theirs + "up_proj.weight", {ours + "w_up"});
  list.add(theirs + "down_proj.weight", {ours + "w_down"});
}

void add_mixtral_mlp(ForeignTensorList& list, const ModelSpec& model, ExpertSpelling experts,
                     const std::string& theirs, const std::string& ours) {
  if (experts == ExpertSpelling::Fused) {
    list.add(theirs + "mlp.gate.weight", {ours + "mlp.router"});
    list.add_experts(theirs + "mlp.experts.gate_up_proj", ours, {"w_gate", "w_up"});
    list.add_experts(theirs + "mlp.experts.down_proj", ours, {"w_down"});
    return;
  }
  const std::string block = theirs + "block_sparse_moe.";
  list.add(block + "gate.weight", {ours + "mlp.router"});
  for (int64_t i = 0; i < model.experts; ++i) {
    const std::string expert = fmt::format("{}experts.{}.", block, i);
    const std::string own = fmt::format("{}mlp.experts.{}.", ours, i);
    list.add(expert + "w1.weight", {own + "w_gate"});
    list.add(expert + "w2.weight", {own + "w_down"});
    list.add(expert + "w3.weight", {own + "w_up"});
  }
}

// The experts of DeepSeek, Qwen3 and ERNIE 4.5, and those that all tokens visit.
void add_shared_and_routed(ForeignTensorList& list, const ModelSpec& model, ForeignFamily family,
                           const std::string& theirs, const std::string& ours) {
  list.add(theirs + "gate.weight", {ours + "router"});
  if (family == ForeignFamily::DeepseekV3) {
    list.add_filled(theirs + "gate.e_score_correction_bias", Shape{model.experts},
                    {ours + "router_bias"});
  } else if (list.has(ours + "router_bias")) {
    list.add_filled(theirs + "moe_statics.e_score_correction_bias", Shape{1, model.experts},
                    {ours + "router_bias"});
  }
  for (int64_t i = 0; i < model.experts; ++i) {
    const std::string expert = fmt::format("experts.{}.", i);
    add_mlp(list, theirs + expert, ours + expert);
  }
  if (model.shared_experts > 0) add_mlp(list, theirs + "shared_experts.", ours + "shared.");
}

// Whether the family's positions turn neighbours of a head, where ours turn its halves.
bool turns_neighbours(ForeignFamily family) {
  return family == ForeignFamily::Cohere || family == ForeignFamily::Ernie;
}

void add_latent_attention(ForeignTensorList& list, const ModelSpec& model,
                          const std::string& theirs, const std::string& ours) {
  const int64_t turned = model.qk_rope_head_dim;
  if (model.q_lora_rank > 0) {
    list.add(theirs + "q_a_proj.weight", {ours + "wq_down"});
    list.inner_norm(theirs + "q_a_layernorm", ours + "q_norm", model.q_lora_rank);
    list.add_turned(theirs + "q_b_proj.weight", {ours + "wq_up"}, model.key_dim(), turned);
  } else {
    list.add_turned(theirs + "q_proj.weight", {ours + "wq"}, model.key_dim(), turned);
  }
  list.add_turned(theirs + "kv_a_proj_with_mqa.weight", {ours + "wkv_down", ours + "shared.wk"},
                  model.kv_lora_rank + turned, turned);
  list.inner_norm(theirs + "kv_a_layernorm", ours + "kv_norm", model.kv_lora_rank);
  list.add_by_heads(theirs + "kv_b_proj.weight", {ours + "wk_up", ours + "wv_up"}, model.heads);
  list.add(theirs + "o_proj.weight", {ours + "wo"});
}

void add_rotary_attention(ForeignTensorList& list, const ModelSpec& model, ForeignFamily family,
                          const std::string& theirs, const std::string& ours) {
  if (model.has_latents()) return add_latent_attention(list, model, theirs, ours);
  for (const char* part : {"q", "k"}) {
    const std::string name = theirs + part + "_proj.weight", param = ours + "w" + part;
    if (turns_neighbours(family)) {
      list.add_interleaved(name, param);
    } else {
      list.add(name, {param});
    }
    if (model.qk_norm) {
      list.inner_norm(fmt::format("{}{}_norm", theirs, part), fmt::format("{}{}_norm", ours, part),
                      model.head_dim);
    }
  }
  list.add(theirs + "v_proj.weight", {ours + "wv"});
  list.add(theirs + "o_proj.weight", {ours + "wo"});
}

void add_hugging_face_layer(ForeignTensorList& list, const ModelSpec& model, ForeignFamily family,
                            const HuggingFaceSpelling& spelling, int64_t layer,
                            const std::string& ours) {
  const std::string theirs = fmt::format("model.layers.{}.", layer);
  list.norm(theirs + "input_layernorm", ours + "norm1", false);
  add_rotary_attention(list, model, family, theirs + "self_attn.", ours + "attn.");
  if (!model.parallel_block) {
    list.norm(theirs + "post_attention_layernorm", ours + "norm2", false);
  }
  if (!model.has_experts(layer)) {
    add_mlp(list, theirs + "mlp.", ours + "mlp.");
  } else if (family == ForeignFamily::Mixtral) {
    add_mixtral_mlp(list, model, spelling.experts, theirs, ours);
  } else {
    add_shared_and_routed(list, model, family, theirs + "mlp.", ours + "mlp.");
  }
}

// A module of DeepSeek-V3 is a layer behind the last one with these tensors beside it.
void add_module(ForeignTensorList& list, const ModelSpec& model,
                const HuggingFaceSpelling& spelling, int64_t depth) {
  const int64_t layer = model.layers + depth - 1;
  const std::string theirs = fmt::format("model.layers.{}.", layer), ours = module_prefix(depth);
  list.norm(theirs + "enorm", ours + "embedding_norm", false);
  list.norm(theirs + "hnorm", ours + "hidden_norm", false);
  list.add_side_by_side(theirs + "eh_proj.weight", {ours + "from_embedding", ours + "from_hidden"});
  add_hugging_face_layer(list, model, ForeignFamily::DeepseekV3, spelling, layer, ours);
  list.norm(theirs + "shared_head.norm", ours + "final_norm", false);
  if (!spelling.has_copies) return;
  list.add_copy(theirs + "embed_tokens.weight", "embedding.tokens");
  list.add_copy(theirs + "shared_head.head.weight",
                model.tied_head ? "embedding.tokens" : "head.weight");
}

std::vector<ForeignTensor> rotary_tensors(const ModelSpec& model, ForeignFamily family,
                                          const HuggingFaceSpelling& spelling) {
  ForeignTensorList list(model);
  list.add("model.embed_tokens.weight", {"embedding.tokens"});
  for (int64_t i = 0; i < model.layers; ++i) {
    add_hugging_face_layer(list, model, family, spelling, i, fmt::format("layers.{}.", i));
  }
  list.final_norm("model.norm", false, spelling.logit_scale);
  if (list.has("head.weight")) list.add("lm_head.weight", {"head.weight"});
  for (int64_t depth = 1; depth <= model.mtp_depth; ++depth) {
    add_module(list, model, spelling, depth);
  }
  return list.take();
}

}  // namespace

std::vector<ForeignTensor> hugging_face_tensors(const ModelSpec& model, ForeignFamily family,
                                                const HuggingFaceSpelling& spelling) {
  return family == ForeignFamily::Gpt2 ? gpt2_tensors(model)
                                       : rotary_tensors(model, family, spelling);
}

std::string canonical_hugging_face_name(std::string_view name, ForeignFamily family) {
  for (const std::string_view wrapper : {"module.", "_orig_mod."}) {
    if (name.starts_with(wrapper)) name.remove_prefix(wrapper.size());
  }
  const std::string prefix = family == ForeignFamily::Gpt2 ? "transformer." : "model.";
  if (name.starts_with(prefix) || name.starts_with("lm_head.")) return std::string(name);
  return prefix + std::string(name);
}

bool is_hugging_face_buffer(std::string_view name, const ModelSpec& model) {
  constexpr std::string_view kLayer = "model.layers.";
  int64_t layer = 0;
  if (model.has_latents() && name.starts_with(kLayer)) {
    std::from_chars(name.data() + kLayer.size(), name.data() + name.size(), layer);
    if (layer >= model.layers) return true;  // modules of DeepSeek-V3 that the model does not have
  }
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq") || name.starts_with("model.mtp_");
}

}  // namespace trireme
