#include <fmt/format.h>

#include <algorithm>

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

// Numbers of a library's class for which config.json may have no key.
struct LatentDefaults {
  double norm_eps = 1e-6;
  int64_t head_dim = 128, v_head_dim = 128, q_lora_rank = 1536;
  int64_t expert_groups = 8, top_groups = 4;
  int64_t index_heads = 64;
};

constexpr std::string_view kGlmType = "glm_moe_dsa";

LatentDefaults latent_defaults(std::string_view type) {
  if (type != kGlmType) return {};
  return {.norm_eps = 1e-5,
          .head_dim = 192,
          .v_head_dim = 256,
          .q_lora_rank = 2048,
          .expert_groups = 1,
          .top_groups = 1,
          .index_heads = 32};
}

// The indexer of DeepSeek-V3.2 and GLM-5. Later models let several layers share what one chooses.
void read_indexer(const HuggingFaceFields& fields, int64_t usual_heads, ModelConfig& model) {
  model.index_top_k = fields.count("index_topk", 2048);
  model.index_heads = fields.count("index_n_heads", usual_heads);
  model.index_head_dim = fields.count("index_head_dim", 128);
  if (fields.count("index_topk_freq", 1) != 1 || fields.find("indexer_types") != nullptr) {
    throw UnsupportedSetting{
        "index_topk_freq or indexer_types: every layer has an indexer of its own here"};
  }
}

// The number of first layers without experts, which transformers 5 lists by their names.
int64_t read_dense_layers(const HuggingFaceFields& fields) {
  const json* types = fields.find("mlp_layer_types");
  if (types == nullptr) return fields.count("first_k_dense_replace", 3);
  const auto is = [](const char* word) { return [=](const json& type) { return type == word; }; };
  const auto sparse = std::find_if(types->begin(), types->end(), is("sparse"));
  const bool is_split = types->is_array() && std::all_of(types->begin(), sparse, is("dense")) &&
                        std::all_of(sparse, types->end(), is("sparse"));
  if (is_split) return sparse - types->begin();
  throw UnsupportedSetting{"mlp_layer_types: only the first layers may be without experts"};
}

}  // namespace

bool has_foreign_indexer(std::string_view type) {
  return type == kGlmType || type == "deepseek_v32";
}

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
  const std::string type = fields.word("model_type", "");
  const LatentDefaults usual = latent_defaults(type);
  read_rotary_family(fields, {.seq_len = 4096, .norm_eps = usual.norm_eps}, model);
  refuse_biases(fields);
  model.kv_heads = 0;
  model.head_dim = fields.count("qk_nope_head_dim", usual.head_dim);
  model.kv_lora_rank = fields.count("kv_lora_rank", 512);
  model.q_lora_rank =
      fields.count("q_lora_rank", fields.has("q_lora_rank") ? 0 : usual.q_lora_rank);
  model.qk_rope_head_dim = fields.count("qk_rope_head_dim", 64);
  model.v_head_dim = fields.count("v_head_dim", usual.v_head_dim);
  if (has_foreign_indexer(type)) read_indexer(fields, usual.index_heads, model);
  // A model that is only priced may have any number there.
  if (model.norm_eps != 1e-6 && model.index_top_k == 0) {
    throw UnsupportedSetting{fmt::format(
        "rms_norm_eps = {}: the norms of latents have 1e-6, and all norms have one number here",
        model.norm_eps)};
  }
  fields.refuse_flag("rope_interleave", false, "positions that turn the halves of a head");
  const int64_t dense = read_dense_layers(fields);
  model.mtp_depth = fields.count("num_nextn_predict_layers", 0);
  model.family = ModelFamily::Llama;
  if (dense >= model.layers) return;  // no layer has experts
  read_layers_that_differ(fields, dense, model);
  model.router = RouterType::Sigmoid;
  model.experts = fields.count("n_routed_experts", 256);
  model.top_k = fields.count("num_experts_per_tok", 8);
  model.shared_experts = fields.count("n_shared_experts", 1);
  model.expert_groups = fields.count("n_group", usual.expert_groups);
  model.top_groups = fields.count("topk_group", usual.top_groups);
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
