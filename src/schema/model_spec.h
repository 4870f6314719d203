#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schema/lora_targets.h"
#include "schema/run_config.h"

namespace trireme {

enum class NormType { LayerNorm, RmsNorm };
enum class MlpType { GeluTanh, GeluErf, Relu, Relu2, Swiglu };

// A model with every default resolved. It is pure data; tables, layers and plan all read this one
// description. A net of images has the shapes of schema/image_net.h; d_model is then the number of
// features that its head reads, vocab_size the number of classes, and a sample one token.
struct ModelSpec {
  ModelFamily family = ModelFamily::Gpt2;
  int64_t layers = 0;
  int64_t d_model = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t v_head_dim = 0;
  int64_t d_ff = 0;
  int64_t vocab_size = 0;
  int64_t seq_len = 0;
  NormType norm = NormType::LayerNorm;
  MlpType mlp = MlpType::GeluTanh;
  bool rope = false;  // false: learned positions
  bool bias = true;
  bool norm_gain = true;
  bool parallel_block = false;  // attention and MLP read the same norm, and are added together
  double layer_scale = 0.0;     // initial gain of what a block adds to the residual stream; 0: none
  bool embedding_norm = false;
  bool final_norm = true;
  bool tied_head = true;
  double norm_eps = 1e-5;
  double dropout = 0.0;
  double init_stddev = 0.02;
  bool init_scale_residual = true;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = RopeScaling::Llama3;
  double rope_scaling_factor = 1.0;
  double rope_low_freq_factor = 1.0;
  double rope_high_freq_factor = 4.0;
  int64_t rope_original_seq_len = 8192;
  double rope_mscale = 1.0;
  bool qk_norm = false;
  int64_t window = 0;  // keys that a query sees, its own included; 0: all before it

  // Latent attention: keys and values are made from a latent of width kv_lora_rank, queries from
  // one of q_lora_rank. head_dim is the width of q and k without positions; beside it lies a part
  // of qk_rope_head_dim with positions, which all heads of the keys share. 0: none.
  int64_t kv_lora_rank = 0;
  int64_t q_lora_rank = 0;
  int64_t qk_rope_head_dim = 0;

  // Sparse attention: an indexer with heads of its own chooses the keys that a query sees. Such a
  // model is priced and never run (check_runnable). 0: none.
  int64_t index_top_k = 0;
  int64_t index_heads = 0;
  int64_t index_head_dim = 0;

  // Experts, each of width d_ff, replace the MLP. 0: a dense MLP.
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t shared_experts = 0;
  int64_t dense_layers = 0;  // the first layers, which have a dense MLP of width dense_d_ff
  int64_t dense_d_ff = 0;
  RouterType router = RouterType::Softmax;
  int64_t expert_groups = 1;
  int64_t top_groups = 1;
  double routed_scaling = 1.0;
  double capacity_factor = 0.0;  // 0: dropless
  double aux_loss = 0.0;
  double z_loss = 0.0;
  double balance_rate = 0.0;
  int64_t first_expert = 0;  // first of the experts on this rank
  int64_t held_experts = 0;

  // Modules behind the last layer: module d reads the token d positions ahead and predicts the one
  // behind it. The mean of their losses, times the weight, is added to the loss. Each has a block
  // like the last layer's, which counts as layer `layers` + d - 1. 0: none.
  int64_t mtp_depth = 0;
  double mtp_loss_weight = 0.0;

  // Adapters: y = x W + lora_scale (x A) B. They alone are trained. 0: none.
  int64_t lora_rank = 0;
  double lora_scale = 0.0;
  LoraTargets lora_targets = {};
  // Patterns of parameters that are not trained (OptimConfig::frozen). A model that is not being
  // trained has none.
  std::string frozen = {};

  // Images: rows and columns, channels of a pixel, and what the channels of layers follow from
  // (schema/image_net.h).
  int64_t image_size = 0;
  int64_t image_channels = 0;
  int64_t width_factor = 1;
  int64_t base_channels = 0;
  bool widen_first_conv = true;
  NormBatch batch_norm = NormBatch::MicroBatch;

  bool reads_images() const { return trireme::reads_images(family); }
  int64_t image_bytes() const { return image_size * image_size * image_channels; }
  // Words of 32 bits of a sample: its tokens, or the bytes of its image.
  int64_t sample_words() const { return reads_images() ? (image_bytes() + 3) / 4 : seq_len; }

  bool has_adapters() const { return lora_rank > 0; }
  // True if the head reads the embedding's table, as its weight or in modules that look ahead.
  bool head_reads_table() const { return tied_head || mtp_depth > 0; }
  // True if the gradients of the uses of this table in embedding and head are joined.
  bool trains_tied_table() const { return head_reads_table() && trains("embedding.tokens"); }
  // Returns true if the parameter with this name, which is no adapter, is trained.
  bool trains(std::string_view param) const { return !has_adapters() && !is_frozen(param); }
  bool is_frozen(std::string_view param) const;
  // True if some parameters may have neither gradients nor optimizer state.
  bool trains_in_part() const { return has_adapters() || !frozen.empty(); }
  bool has_experts() const { return experts > 0; }
  bool has_experts(int64_t layer) const { return has_experts() && layer >= dense_layers; }
  // Number of layers and modules that have experts.
  int64_t num_expert_layers() const { return has_experts() ? num_blocks() - dense_layers : 0; }
  // Number of layers and modules, each of which has a block.
  int64_t num_blocks() const { return layers + mtp_depth; }
  int64_t shared_width() const { return shared_experts * d_ff; }
  // Number of tokens of a micro-batch that an expert accepts.
  int64_t expert_capacity(int64_t num_tokens) const;
  // Rows of all experts together: tokens * top_k, or fewer if capacities are smaller.
  int64_t expert_rows(int64_t num_tokens) const;
  bool has_latents() const { return kv_lora_rank > 0; }
  bool has_indexer() const { return index_top_k > 0; }
  // Most keys that a query sees: those of its window, or those that its indexer chooses; 0: all.
  int64_t most_seen_keys() const { return has_indexer() ? index_top_k : window; }
  // True if a layer with a dense MLP has the matrices of the target.
  bool has_target(LoraTarget target) const;
  // Numbers of a head that q and k are multiplied over.
  int64_t key_dim() const { return head_dim + qk_rope_head_dim; }
  // Those of them that rotary positions turn.
  int64_t rope_dim() const { return has_latents() ? qk_rope_head_dim : head_dim; }
  int64_t q_width() const { return heads * key_dim(); }
  int64_t k_width() const { return kv_heads * key_dim(); }
  int64_t v_width() const { return kv_heads * v_head_dim; }
  int64_t o_width() const { return heads * v_head_dim; }
  int64_t qkv_width() const { return q_width() + k_width() + v_width(); }
  // Returns the factor of q k^T.
  double logit_scale() const;
  // Gate and up together.
  int64_t up_width() const { return mlp == MlpType::Swiglu ? 2 * d_ff : d_ff; }
};

// The model with every default filled in. `data_vocab_size` fills model.vocab_size = 0; it is 0 if
// the data has no vocabulary.
ModelSpec with_defaults(const ModelConfig& config, int64_t data_vocab_size);

// The same for a model that keeps the rules of schema/model_rules.h, or the first that it breaks.
Result<ModelSpec> resolve_model(const ModelConfig& config, int64_t data_vocab_size);

// Refuses a model with an op that is only priced.
Status check_runnable(const ModelSpec& model);

// Returns the model without the modules of multi-token prediction, which is the one that generates.
ModelSpec without_modules(ModelSpec model);

// The depth of the module to which an op or parameter of this name belongs ("mtp.0.attn.wq": 1); 0:
// to none.
int64_t module_of(std::string_view name);

// Into how many slices run.reproducible = "mesh" cuts every layer, whatever tp is.
int most_slices(const ModelSpec& model);

// The consecutive part of the model in one stage.
struct StageSpec {
  int64_t first_layer = 0;
  int64_t num_layers = 0;
  bool has_embedding = true;
  bool has_head = true;

  friend auto operator<=>(const StageSpec&, const StageSpec&) = default;
};
StageSpec whole_model(const ModelSpec& model);
// The layer that is a unit of the stage, counted in the whole model; the embedding is unit 0.
inline int64_t layer_of_unit(const StageSpec& stage, int64_t unit) {
  return stage.first_layer + unit - (stage.has_embedding ? 1 : 0);
}

// Consecutive layers that compute the same: they differ in their weights and names alone. Kinds of
// layers are counted from 0 in the order of the model.
struct LayerRun {
  int kind = 0;
  int64_t first = 0;
  int64_t count = 0;
};
// Every kind once, with all its layers: kind k is element k.
std::vector<LayerRun> layer_kinds(const ModelSpec& model);
// What a stage has of them.
std::vector<LayerRun> layer_runs(std::span<const LayerRun> kinds, const StageSpec& stage);
std::vector<LayerRun> layer_runs(const ModelSpec& model, const StageSpec& stage);

// What a stage computes, as numbers: stages with equal ones have equal tables, prices and
// transfers.
std::vector<int64_t> content_of(const ModelSpec& model, const StageSpec& stage);

}  // namespace trireme
