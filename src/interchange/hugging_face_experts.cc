#include <fmt/format.h>

#include "interchange/hugging_face_families.h"
#include "interchange/hugging_face_rotary.h"

namespace trireme {
namespace {

using nlohmann::json;

// A model whose first layers have no experts: they have the width that Llama calls
// intermediate_size, and experts have one of their own.
void read_layers_that_differ(const HuggingFaceFields& fields, int64_t dense_layers,
                             ModelConfig& model) {
  model.family = ModelFamily::Moe;
  model.dense_layers = dense_layers;
  if (dense_layers > 0) model.dense_d_ff = model.d_ff;
  model.d_ff = fields.count("moe_intermediate_size");
}

}  // namespace

// Mixtral's router takes the best of a softmax and divides them by their sum, as ours does.
void read_mixtral(const HuggingFaceFields& fields, ModelConfig& model) {
  model.family = ModelFamily::Moe;
  read_rotary_family(fields, {.seq_len = 131072, .rope_theta = 1e6, .norm_eps = 1e-5}, model);
  model.experts = fields.count("num_local_experts", 8);
  model.top_k = fields.count("num_experts_per_tok", 2);
  model.aux_loss = fields.number("router_aux_loss_coef", 0.001);
  model.window = fields.count("sliding_window", 0);
}

void read_qwen3_moe(const HuggingFaceFields& fields, ModelConfig& model) {
  read_qwen3(fields, model);
  model.family = ModelFamily::Moe;
  model.d_ff = fields.count("moe_intermediate_size", 768);
  model.experts = fields.count("num_experts", 128);
  model.top_k = fields.count("num_experts_per_tok", 8);
  model.aux_loss = fields.number("router_aux_loss_coef", 0.001);
  if (!fields.flag("norm_topk_prob", false)) {
    throw UnsupportedSetting{
        "norm_topk_prob = false: weights of experts that are not divided by their sum are not "
        "supported"};
  }
  const json* dense = fields.find("mlp_only_layers");
  const bool has_dense = dense != nullptr && !(dense->is_array() && dense->empty());
  if (has_dense || fields.count("decoder_sparse_step", 1) != 1) {
    throw UnsupportedSetting{
        "mlp_only_layers or decoder_sparse_step: every layer of a qwen3_moe has experts here"};
  }
}

void read_deepseek(const HuggingFaceFields& fields, ModelConfig& model) {
  read_rotary_family(fields, {}, model);
  refuse_biases(fields);
  read_layers_that_differ(fields, fields.count("first_k_dense_replace", 0), model);
  model.experts = fields.count("n_routed_experts");
  model.top_k = fields.count("num_experts_per_tok");
  model.shared_experts = fields.count("n_shared_experts", 0);
  model.aux_loss = fields.number("aux_loss_alpha", 0.001);
  if (fields.count("moe_layer_freq", 1) != 1) {
    throw UnsupportedSetting{"moe_layer_freq: only the first layers may be without experts"};
  }
  if (fields.word("scoring_func", "softmax") != "softmax") {
    throw UnsupportedSetting{"scoring_func: softmax is supported"};
  }
  if (!fields.flag("norm_topk_prob", false)) {
    throw UnsupportedSetting{
        "norm_topk_prob = false: weights of experts that are not divided by their sum are not "
        "supported"};
  }
  if (model.top_k == 1) {
    throw UnsupportedSetting{
        "num_experts_per_tok = 1: a weight that is not divided by itself is not supported"};
  }
}

// ERNIE 4.5 chooses experts by the sum of a score and a bias, as model.balance_rate does.
void read_ernie(const HuggingFaceFields& fields, ModelConfig& model) {
  read_rotary_family(
      fields, {.seq_len = 131072, .rope_theta = 500000.0, .norm_eps = 1e-5, .tied_head = true},
      model);
  refuse_biases(fields);
  read_layers_that_differ(fields, fields.count("moe_layer_start_index", 1), model);
  model.experts = fields.count("moe_num_experts", 64);
  model.top_k = fields.count("moe_k", 6);
  model.shared_experts = fields.count("moe_num_shared_experts", 2);
  model.aux_loss = fields.number("router_aux_loss_coef", 0.001);
  model.balance_rate = kForeignBalanceRate;
  const double last = fields.number("moe_layer_end_index", -1.0);
  if (fields.count("moe_layer_interval", 1) != 1 ||
      (last != -1.0 && last != double(model.layers - 1))) {
    throw UnsupportedSetting{
        "moe_layer_interval or moe_layer_end_index: only the first layers may be without experts"};
  }
}

// The router's bias is moved as model.balance_rate does.
void read_deepseek_v3(const HuggingFaceFields& fields, ModelConfig& model) {
  read_rotary_family(fields, {.seq_len = 4096}, model);
  refuse_biases(fields);
  model.kv_heads = 0;
  model.head_dim = fields.count("qk_nope_head_dim", 128);
  model.kv_lora_rank = fields.count("kv_lora_rank", 512);
  model.q_lora_rank = fields.count("q_lora_rank", fields.has("q_lora_rank") ? 0 : 1536);
  model.qk_rope_head_dim = fields.count("qk_rope_head_dim", 64);
  model.v_head_dim = fields.count("v_head_dim", 128);
  if (model.norm_eps != 1e-6) {
    throw UnsupportedSetting{fmt::format(
        "rms_norm_eps = {}: the norms of latents have 1e-6, and all norms have one number here",
        model.norm_eps)};
  }
  fields.refuse_flag("rope_interleave", false, "positions that turn the halves of a head");
  const int64_t dense = fields.count("first_k_dense_replace", 3);
  // Several modules with experts are not read, because a model here can have only one of these.
  const int64_t modules = fields.count("num_nextn_predict_layers", 0);
  model.mtp_depth = modules == 1 || dense >= model.layers ? modules : 0;
  model.family = ModelFamily::Llama;
  if (dense >= model.layers) return;  // no layer has experts
  read_layers_that_differ(fields, dense, model);
  model.router = RouterType::Sigmoid;
  model.experts = fields.count("n_routed_experts", 256);
  model.top_k = fields.count("num_experts_per_tok", 8);
  model.shared_experts = fields.count("n_shared_experts", 1);
  model.expert_groups = fields.count("n_group", 8);
  model.top_groups = fields.count("topk_group", 4);
  model.routed_scaling = fields.number("routed_scaling_factor", 2.5);
  model.balance_rate = kForeignBalanceRate;
  model.aux_loss = fields.number("aux_loss_alpha", 0.0001);
  if (fields.count("moe_layer_freq", 1) != 1) {
    throw UnsupportedSetting{"moe_layer_freq: only the first layers may be without experts"};
  }
  if (fields.word("scoring_func", "sigmoid") != "sigmoid" ||
      fields.word("topk_method", "noaux_tc") != "noaux_tc") {
    throw UnsupportedSetting{
        "scoring_func or topk_method: sigmoid and noaux_tc are supported in a deepseek_v3"};
  }
  if (!fields.flag("norm_topk_prob", true)) {
    throw UnsupportedSetting{
        "norm_topk_prob = false: weights of experts that are not divided by their sum are not "
        "supported"};
  }
}

}  // namespace trireme
