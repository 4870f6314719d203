#include <fmt/format.h>

#include "interchange/foreign_tensor_list.h"
#include "interchange/gguf_latents.h"
#include "interchange/gguf_metadata.h"

namespace trireme {
namespace {

void add_gguf_mlp(ForeignTensorList& list, const std::string& theirs, const std::string& ending,
                  const std::string& ours) {
  const auto name = [&](const char* part) { return theirs + part + ending + ".weight"; };
  if (list.has(ours + "w_gate")) list.add(name("ffn_gate"), {ours + "w_gate"});
  list.add(name("ffn_up"), {ours + "w_up"});
  list.add(name("ffn_down"), {ours + "w_down"});
}

// GGUF stores each kind of matrix of all experts as one tensor.
void add_gguf_experts(ForeignTensorList& list, const std::string& theirs, const std::string& ours) {
  list.add(theirs + "ffn_gate_inp.weight", {ours + "mlp.router"});
  list.add_experts(theirs + "ffn_gate_exps.weight", ours, {"w_gate"});
  list.add_experts(theirs + "ffn_up_exps.weight", ours, {"w_up"});
  list.add_experts(theirs + "ffn_down_exps.weight", ours, {"w_down"});
  if (list.has(ours + "mlp.router_bias")) {
    list.add(theirs + "exp_probs_b.bias", {ours + "mlp.router_bias"});
  }
  if (list.has(ours + "mlp.shared.w_up"))
    add_gguf_mlp(list, theirs, "_shexp", ours + "mlp.shared.");
}

void add_gpt2_layer(ForeignTensorList& list, const std::string& theirs, const std::string& ours) {
  list.norm(theirs + "attn_norm", ours + "norm1", true);
  list.linear(theirs + "attn_qkv", {ours + "attn.wq", ours + "attn.wk", ours + "attn.wv"},
              {ours + "attn.bq", ours + "attn.bk", ours + "attn.bv"});
  list.linear(theirs + "attn_output", {ours + "attn.wo"}, {ours + "attn.bo"});
  list.norm(theirs + "ffn_norm", ours + "norm2", true);
  list.linear(theirs + "ffn_up", {ours + "mlp.w_up"}, {ours + "mlp.b_up"});
  list.linear(theirs + "ffn_down", {ours + "mlp.w_down"}, {ours + "mlp.b_down"});
}

// Rotary positions of Qwen3 rotate the halves of a head there, too; those of the others rotate
// neighbours.
void add_rotary_layer(ForeignTensorList& list, const ModelSpec& model, const std::string& theirs,
                      const std::string& ours) {
  if (model.has_latents()) return add_latent_tensors(list, model, theirs, ours);
  list.norm(theirs + "attn_norm", ours + "norm1", false);
  for (const char* part : {"q", "k"}) {
    const std::string name = fmt::format("{}attn_{}", theirs, part);
    const std::string param = fmt::format("{}attn.w{}", ours, part);
    if (model.qk_norm) {
      list.add(name + ".weight", {param});
      list.inner_norm(name + "_norm", fmt::format("{}attn.{}_norm", ours, part), model.head_dim);
    } else {
      list.add_interleaved(name + ".weight", param);
    }
  }
  list.add(theirs + "attn_v.weight", {ours + "attn.wv"});
  list.add(theirs + "attn_output.weight", {ours + "attn.wo"});
}

}  // namespace

std::vector<ForeignTensor> gguf_tensors(const ModelSpec& model, ForeignFamily family,
                                        double logit_scale) {
  const bool is_gpt2 = family == ForeignFamily::Gpt2;
  ForeignTensorList list(model);
  list.add("token_embd.weight", {"embedding.tokens"});
  if (is_gpt2) list.add("position_embd.weight", {"embedding.positions"});
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string theirs = fmt::format("blk.{}.", i);
    const std::string ours = fmt::format("layers.{}.", i);
    if (is_gpt2) {
      add_gpt2_layer(list, theirs, ours);
      continue;
    }
    add_rotary_layer(list, model, theirs, ours);
    if (!model.parallel_block) list.norm(theirs + "ffn_norm", ours + "norm2", false);
    if (model.has_experts(i)) {
      add_gguf_experts(list, theirs, ours);
    } else {
      add_gguf_mlp(list, theirs, "", ours + "mlp.");
    }
  }
  list.final_norm("output_norm", is_gpt2, logit_scale);
  if (list.has("head.weight")) list.add("output.weight", {"head.weight"});
  return list.take();
}

}  // namespace trireme
