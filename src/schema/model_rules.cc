#include "schema/model_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/input_limits.h"
#include "schema/adapter_rules.h"
#include "schema/image_net.h"
#include "schema/model_spec.h"

namespace trireme {
namespace {

constexpr int64_t kMostRopeTokens = int64_t{1} << 31;

void sizes_of_model(ConfigRules& rules, const ModelConfig& model) {
  rules.size("model.layers", model.layers, 1, limits::kLayers);
  rules.size("model.d_model", model.d_model, 1, limits::kWidth);
  rules.size("model.heads", model.heads, 1, limits::kWidth);
  rules.size("model.kv_heads", model.kv_heads, 0, limits::kWidth);
  rules.size("model.head_dim", model.head_dim, 0, limits::kWidth);
  rules.size("model.d_ff", model.d_ff, 0, 4 * limits::kWidth);  // as wide as its default may be
  rules.size("model.vocab_size", model.vocab_size, 0, limits::kVocabSize);
  rules.size("model.seq_len", model.seq_len, 1, limits::kSeqLen);
  rules.divides("model.kv_heads", model.kv_heads, "model.heads", model.heads);
  if (model.head_dim == 0 && model.heads >= 1) {
    rules.require(model.d_model % model.heads == 0, "model.heads",
                  fmt::format("must divide model.d_model = {}", model.d_model),
                  "change one of them, or set model.head_dim");
  }
}

void head_rules(ConfigRules& rules, const ModelConfig& model) {
  const ModelSpec spec = with_defaults(model, 0);
  rules.require(!spec.rope || spec.has_latents() || spec.head_dim % 2 == 0,
                model.head_dim != 0 ? "model.head_dim" : "model.heads",
                fmt::format("gives a head of {}, and rotary positions turn pairs", spec.head_dim),
                "choose an even width of a head");
  const bool are_sizes = model.heads >= 1 && model.heads <= limits::kWidth;
  const double width = double(spec.heads) * double(spec.head_dim);
  rules.require(
      !are_sizes || width <= double(limits::kWidth), "model.heads",
      fmt::format("heads of {} are wider than {} together", spec.head_dim, limits::kWidth),
      "take fewer or narrower heads");
}

constexpr int64_t kMostHeadWidth = 1024;  // of a kernel's tile

// Sparse attention, in a model with latents.
void indexer_rules(ConfigRules& rules, const ModelConfig& model) {
  if (model.index_top_k <= 0) return;
  rules.size("model.index_heads", model.index_heads, 1, limits::kWidth);
  rules.size("model.index_head_dim", model.index_head_dim, 1, kMostHeadWidth);
  rules.require(model.index_head_dim >= model.qk_rope_head_dim, "model.index_head_dim",
                fmt::format("has no room for the part with rotary positions, "
                            "model.qk_rope_head_dim = {}",
                            model.qk_rope_head_dim),
                fmt::format("try {}", 2 * model.qk_rope_head_dim));
  rules.require(model.window == 0, "model.window",
                "bounds the keys of a query, which the indexer of model.index_top_k chooses",
                "set model.window = 0, or model.index_top_k = 0");
}

// Latent attention. Decoding multiplies queries by the latent and the part with positions side by
// side.
void latent_rules(ConfigRules& rules, const ModelConfig& model) {
  const ModelSpec spec = with_defaults(model, 0);
  rules.require(spec.rope && model.family != ModelFamily::Gpt2, "model.kv_lora_rank",
                "makes keys with a rotary part, but this model has learned positions",
                "set model.family = \"llama\" or \"moe\"");
  rules.require(
      model.qk_rope_head_dim >= 2 && model.qk_rope_head_dim % 2 == 0, "model.qk_rope_head_dim",
      "is the width that rotary positions turn in pairs, so it is even and above 0", "try 64");
  rules.require(model.kv_heads == 0 || model.kv_heads == model.heads, "model.kv_heads",
                "must be model.heads: every head makes keys of its own from the latent",
                "leave it out");
  rules.require(!model.qk_norm, "model.qk_norm",
                "norms heads, but with model.kv_lora_rank it is the latents that are normed",
                "set model.qk_norm = false");
  indexer_rules(rules, model);
  const int64_t widest = std::max(spec.key_dim(), model.kv_lora_rank + model.qk_rope_head_dim);
  rules.require(
      widest <= kMostHeadWidth, "model.kv_lora_rank",
      fmt::format("makes keys of {} numbers; a head has at most {}", widest, kMostHeadWidth),
      "take a narrower latent or narrower heads");
}

void number_rules(ConfigRules& rules, const ModelConfig& model) {
  rules.in_range("model.dropout", model.dropout, 0.0, 1.0);
  rules.at_least("model.norm_eps", model.norm_eps, 0.0);
  rules.at_least("model.layer_scale", model.layer_scale, 0.0);
  rules.at_least("model.init_stddev", model.init_stddev, 0.0);
  rules.require(model.rope_theta > 0.0 && std::isfinite(model.rope_theta), "model.rope_theta",
                "must be positive and finite", "try 10000.0");
  rules.at_least("model.rope_scaling_factor", model.rope_scaling_factor, 1.0);
  rules.at_least("model.rope_mscale", model.rope_mscale, 0.0);
  const bool is_yarn = model.rope_scaling == RopeScaling::Yarn;
  rules.require(is_yarn || model.rope_mscale == 1.0, "model.rope_mscale",
                "sharpens attention with YaRN alone", "set model.rope_scaling = \"yarn\"");
  if (model.rope_scaling_factor > 1.0) {
    rules.require(model.rope_low_freq_factor > 0.0, "model.rope_low_freq_factor",
                  "must be positive", "try 1.0");
    const bool is_above = model.rope_high_freq_factor > model.rope_low_freq_factor ||
                          (is_yarn && model.rope_high_freq_factor == model.rope_low_freq_factor);
    rules.require(
        is_above && std::isfinite(model.rope_high_freq_factor), "model.rope_high_freq_factor",
        fmt::format("must be above model.rope_low_freq_factor = {}", model.rope_low_freq_factor),
        is_yarn ? "try 32.0" : "try 4.0");
    rules.size("model.rope_original_seq_len", model.rope_original_seq_len, 1, kMostRopeTokens);
  }
}

// These keys need a part that the model does not have.
void attention_rules(ConfigRules& rules, const ModelConfig& model) {
  rules.size("model.window", model.window, 0, limits::kSeqLen);
  const ModelSpec spec = with_defaults(model, 0);
  rules.require(!model.qk_norm || spec.norm == NormType::RmsNorm, "model.qk_norm",
                "is an RMS norm of queries and keys, but the norms of this model are layer_norm",
                "set model.norm = \"rms_norm\", or model.qk_norm = false");
  rules.size("model.kv_lora_rank", model.kv_lora_rank, 0, kMostHeadWidth);
  rules.size("model.q_lora_rank", model.q_lora_rank, 0, limits::kWidth);
  rules.size("model.qk_rope_head_dim", model.qk_rope_head_dim, 0, kMostHeadWidth);
  rules.size("model.v_head_dim", model.v_head_dim, 0, kMostHeadWidth);
  rules.size("model.index_top_k", model.index_top_k, 0, limits::kSeqLen);
  if (model.kv_lora_rank > 0) return latent_rules(rules, model);
  const auto need_latents = [&](std::string_view key, int64_t value) {
    rules.require(value == 0, key, "is a width of latent attention, which this model does not have",
                  "set model.kv_lora_rank, or leave this key out");
  };
  need_latents("model.q_lora_rank", model.q_lora_rank);
  need_latents("model.qk_rope_head_dim", model.qk_rope_head_dim);
  need_latents("model.v_head_dim", model.v_head_dim);
  rules.require(model.index_top_k == 0, "model.index_top_k",
                "chooses keys of latent attention, which this model does not have",
                "set model.kv_lora_rank, or leave this key out");
}

constexpr int64_t kMostExperts = 4096;  // a bias per expert fits one chunk of a norm

// How many of the experts, of which there are some, a token may visit.
void chosen_expert_rules(ConfigRules& rules, const ModelConfig& model) {
  const int64_t groups = model.expert_groups, top_groups = model.top_groups;
  rules.size("model.top_k", model.top_k, 1, model.experts);
  rules.divides("model.expert_groups", groups, "model.experts", model.experts);
  if (model.top_k > model.experts || groups < 1 || top_groups < 1) return;
  if (model.experts % groups != 0 || top_groups >= groups) return;
  const int64_t reachable = model.experts / groups * top_groups;
  rules.require(model.top_k <= reachable, "model.top_k",
                fmt::format("must not exceed the {} expert{} of {} group{}", reachable,
                            reachable == 1 ? "" : "s", top_groups, top_groups == 1 ? "" : "s"),
                fmt::format("raise model.top_groups, or try {}", reachable));
}

void expert_rules(ConfigRules& rules, const ModelConfig& model) {
  if (model.family != ModelFamily::Moe) return;
  rules.size("model.experts", model.experts, 1, kMostExperts);
  rules.size("model.shared_experts", model.shared_experts, 0, kMostExperts);
  rules.size("model.dense_layers", model.dense_layers, 0, std::max<int64_t>(0, model.layers - 1));
  rules.size("model.dense_d_ff", model.dense_d_ff, 0, 4 * limits::kWidth);
  rules.require(model.dense_d_ff == 0 || model.dense_layers > 0, "model.dense_d_ff",
                "is the width of layers that this model does not have",
                "set model.dense_layers, or leave it out");
  rules.size("model.expert_groups", model.expert_groups, 1, kMostExperts);
  rules.size("model.top_groups", model.top_groups, 1, std::max<int64_t>(1, model.expert_groups));
  if (model.experts >= 1) chosen_expert_rules(rules, model);
  rules.require(
      model.activation == ActivationChoice::Default || model.activation == ActivationChoice::Swiglu,
      "model.activation", "is not what experts are built of", "use \"swiglu\"");
  rules.require(model.routed_scaling > 0.0 && std::isfinite(model.routed_scaling),
                "model.routed_scaling", "must be positive and finite", "try 1.0");
  rules.at_least("model.capacity_factor", model.capacity_factor, 0.0);
  rules.at_least("model.aux_loss", model.aux_loss, 0.0);
  rules.at_least("model.z_loss", model.z_loss, 0.0);
  rules.require(model.z_loss == 0.0 || model.router == RouterType::Softmax, "model.z_loss",
                "is a loss of the softmax router", "set it to 0, or model.router = \"softmax\"");
  rules.at_least("model.balance_rate", model.balance_rate, 0.0);
}

// Modules that look ahead (multi-token prediction).
void module_rules(ConfigRules& rules, const ModelConfig& model) {
  constexpr int64_t kMostModules = 8;
  rules.size("model.mtp_depth", model.mtp_depth, 0, kMostModules);
  rules.require(model.mtp_loss_weight >= 0.0 && std::isfinite(model.mtp_loss_weight),
                "model.mtp_loss_weight", "must be 0 or more, and finite", "try 0.3");
  if (model.mtp_depth <= 0) return;
  rules.require(model.mtp_depth < model.seq_len, "model.mtp_depth",
                "looks further ahead than a sequence is long",
                "take longer sequences (model.seq_len), or set it to 0");
  rules.require(model.lora_rank == 0, "model.mtp_depth",
                "makes modules, and adapters are not trained together with them",
                "set model.mtp_depth = 0, or model.lora_rank = 0");
}

// Refuses models whose tables would take more time and memory than the model is worth, before any
// table is made.
void tensor_count_rules(ConfigRules& rules, const ModelConfig& model) {
  const bool has_experts = model.family == ModelFamily::Moe;
  const double experts = has_experts ? double(model.experts) + double(model.shared_experts) : 1.0;
  const double of_layer =
      16.0 + (model.lora_rank > 0 ? 20.0 : 0.0) + (has_experts ? 3.0 * experts : 0.0);
  const double blocks = double(model.layers) + double(model.mtp_depth);
  rules.require(blocks * of_layer <= double(limits::kModelTensors), "model.layers",
                fmt::format("with {:.0f} experts each makes more than {} tensors", experts,
                            limits::kModelTensors),
                "take fewer layers or experts");
}

// Sums are doubles, which do not overflow.
double most_parameters(const ModelSpec& model) {
  const double C = double(model.d_model);
  const double experts =
      model.has_experts() ? double(model.experts) + double(model.shared_experts) : 1.0;
  const double attention = 4.0 * C * double(model.heads) * double(model.head_dim);
  const double mlp = 3.0 * C * double(model.d_ff) * experts;
  const double dense = double(model.dense_layers) * 3.0 * C * double(model.dense_d_ff);
  const double joins = double(model.mtp_depth) * 2.0 * C * C;
  return (double(model.layers) + double(model.mtp_depth)) * (attention + mlp) + dense + joins +
         2.0 * C * (double(model.vocab_size) + double(model.seq_len));
}

// A net of images has its shapes from its family; keys of a transformer that other rules read must
// agree with them.
void image_rules(ConfigRules& rules, const ModelConfig& model) {
  constexpr int64_t kLargestImage = 4096, kMostChannels = 4096;
  const bool is_wide = model.family == ModelFamily::WideResNet;
  const int64_t most_layers = is_wide ? kMostResNetLayers : kBlocksOfResNet50;
  rules.size("model.image_size", model.image_size, 1, kLargestImage);
  rules.require(model.image_channels == 1 || model.image_channels == 3, "model.image_channels",
                "must be 1 (grey) or 3 (red, green, blue)", "try 3");
  rules.size("model.width_factor", model.width_factor, 1, 64);
  rules.size("model.vocab_size", model.vocab_size, 0, limits::kVocabSize);
  rules.size("model.base_channels", model.base_channels, 0, kMostChannels);
  rules.require(model.base_channels == 0 || is_wide || model.family == ModelFamily::ConvNet,
                "model.base_channels",
                fmt::format("chooses the channels of conv_net and wide_resnet, and {} has its own",
                            name_of(model.family)),
                "set model.base_channels = 0");
  rules.require(model.widen_first_conv || is_wide, "model.widen_first_conv",
                "says what model.width_factor widens in a wide_resnet, and this is none",
                "set model.widen_first_conv = true");
  rules.require(model.batch_norm == NormBatch::MicroBatch || has_batch_norms(model.family),
                "model.batch_norm",
                fmt::format("says what batch norms do, and {} has none", name_of(model.family)),
                "set model.batch_norm = \"micro_batch\"");
  rules.size("model.layers", model.layers, 1, most_layers);
  const int64_t layers = layers_of_family(model.family, model.layers);
  rules.require(model.layers == layers, "model.layers",
                fmt::format("must be {}: so many blocks of {} follow the first one", layers,
                            name_of(model.family)),
                fmt::format("set model.layers = {}", layers));
  rules.require(model.seq_len == 1, "model.seq_len", "must be 1: an image has one target",
                "set model.seq_len = 1");
  const auto absent = [&](std::string_view key, int64_t value) {
    rules.require(value == 0, key, "has no place in a net of images",
                  fmt::format("set {} = 0", key));
  };
  absent("model.lora_rank", model.lora_rank);
  absent("model.window", model.window);
  absent("model.kv_lora_rank", model.kv_lora_rank);
  absent("model.index_top_k", model.index_top_k);
  rules.require(!model.qk_norm, "model.qk_norm", "has no place in a net of images",
                "set model.qk_norm = false");
  const bool has_dropout =
      model.family == ModelFamily::AlexNet || model.family == ModelFamily::Vgg16;
  rules.in_range("model.dropout", model.dropout, 0.0, 1.0);
  rules.require(model.dropout == 0.0 || has_dropout, "model.dropout",
                "drops features of the dense layers of alexnet and vgg16, and this net has none",
                "set model.dropout = 0.0");
  rules.require(model.mtp_depth == 0, "model.mtp_depth", "looks ahead in text, not in images",
                "set model.mtp_depth = 0");
  const bool are_sizes = model.image_size >= 1 && model.image_size <= kLargestImage &&
                         model.layers == layers && layers >= 1 && layers <= most_layers &&
                         model.width_factor >= 1 && model.base_channels >= 0 &&
                         model.base_channels <= kMostChannels;
  if (!are_sizes) return;
  const ModelSpec spec = with_defaults(model, 0);
  for (int64_t block = 0; block <= layers + 1; ++block) {
    const ImageBlock made = block_of(spec, block);
    const bool fits = made.height >= 1 && made.width >= 1 && made.out_height() >= 1;
    if (fits) continue;
    return rules.require(false, "model.image_size",
                         fmt::format("leaves no pixel for block {} of {}", block, layers),
                         "take larger images or fewer layers");
  }
}

}  // namespace

void model_rules(ConfigRules& rules, const ModelConfig& model) {
  if (reads_images(model.family)) return image_rules(rules, model);
  sizes_of_model(rules, model);
  head_rules(rules, model);
  number_rules(rules, model);
  attention_rules(rules, model);
  expert_rules(rules, model);
  adapter_rules(rules, model);
  module_rules(rules, model);
  tensor_count_rules(rules, model);
}

void vocabulary_rules(ConfigRules& rules, const ModelConfig& model, int64_t data_vocab_size) {
  const ModelSpec spec = with_defaults(model, data_vocab_size);
  if (spec.vocab_size <= 0) {
    return rules.require(false, "model.vocab_size", "must be positive",
                         "set it, or name token files in data.train, which have a vocabulary");
  }
  rules.require(data_vocab_size <= spec.vocab_size, "model.vocab_size",
                fmt::format("is smaller than the data's vocabulary of {}", data_vocab_size),
                fmt::format("try {}, or 0 for the data's", data_vocab_size));
  rules.size("model.vocab_size", spec.vocab_size, 1, limits::kVocabSize);
  const double parameters = most_parameters(spec);
  rules.require(parameters <= limits::kParameters, "model.d_model",
                fmt::format("gives up to {:.1e} parameters; a model has at most {:.0e}", parameters,
                            limits::kParameters),
                "take fewer layers, a smaller width or a smaller vocabulary");
}

}  // namespace trireme
