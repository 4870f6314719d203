#include "interchange/hugging_face_tensors.h"

#include <fmt/format.h>

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
  list.norm("transformer.ln_f", "final_norm", true);
  if (list.has("head.weight")) list.add("lm_head.weight", {"head.weight"});
  return list.take();
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

std::vector<ForeignTensor> rotary_tensors(const ModelSpec& model, ExpertSpelling experts) {
  ForeignTensorList list(model);
  list.add("model.embed_tokens.weight", {"embedding.tokens"});
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string theirs = fmt::format("model.layers.{}.", i);
    const std::string ours = fmt::format("layers.{}.", i);
    list.norm(theirs + "input_layernorm", ours + "norm1", false);
    list.add(theirs + "self_attn.q_proj.weight", {ours + "attn.wq"});
    list.add(theirs + "self_attn.k_proj.weight", {ours + "attn.wk"});
    list.add(theirs + "self_attn.v_proj.weight", {ours + "attn.wv"});
    list.add(theirs + "self_attn.o_proj.weight", {ours + "attn.wo"});
    list.norm(theirs + "post_attention_layernorm", ours + "norm2", false);
    if (model.has_experts()) {
      add_mixtral_mlp(list, model, experts, theirs, ours);
      continue;
    }
    list.add(theirs + "mlp.gate_proj.weight", {ours + "mlp.w_gate"});
    list.add(theirs + "mlp.up_proj.weight", {ours + "mlp.w_up"});
    list.add(theirs + "mlp.down_proj.weight", {ours + "mlp.w_down"});
  }
  list.norm("model.norm", "final_norm", false);
  if (list.has("head.weight")) list.add("lm_head.weight", {"head.weight"});
  return list.take();
}

}  // namespace

std::vector<ForeignTensor> hugging_face_tensors(const ModelSpec& model, ForeignFamily family,
                                                ExpertSpelling experts) {
  return family == ForeignFamily::Gpt2 ? gpt2_tensors(model) : rotary_tensors(model, experts);
}

std::string canonical_hugging_face_name(std::string_view name, ForeignFamily family) {
  for (const std::string_view wrapper : {"module.", "_orig_mod."}) {
    if (name.starts_with(wrapper)) name.remove_prefix(wrapper.size());
  }
  const std::string prefix = family == ForeignFamily::Gpt2 ? "transformer." : "model.";
  if (name.starts_with(prefix) || name.starts_with("lm_head.")) return std::string(name);
  return prefix + std::string(name);
}

bool is_hugging_face_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

}  // namespace trireme
