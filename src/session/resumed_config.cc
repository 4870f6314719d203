#include "session/resumed_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "config/config_load.h"
#include "graph/param_table.h"
#include "schema/run_config_fields.h"

namespace trireme {
namespace {

template <auto Member>
bool same(const ModelSpec& a, const ModelSpec& b) {
  return a.*Member == b.*Member;
}

// New adapters change nothing: they add 0. Those of a checkpoint stay as they are.
template <auto Member>
bool same_if_adapted(const ModelSpec& saved, const ModelSpec& now) {
  return !saved.has_adapters() || saved.*Member == now.*Member;
}

// The keys that decide which function the weights compute. Keys that affect only training (dropout,
// router losses) may change when a run resumes, and so may the sequence length.
struct ModelKey {
  std::string_view key;
  bool (*is_same)(const ModelSpec& a, const ModelSpec& b);
};
constexpr ModelKey kModelKeys[] = {
    {"model.family", same<&ModelSpec::family>},
    {"model.layers", same<&ModelSpec::layers>},
    {"model.d_model", same<&ModelSpec::d_model>},
    {"model.heads", same<&ModelSpec::heads>},
    {"model.kv_heads", same<&ModelSpec::kv_heads>},
    {"model.head_dim", same<&ModelSpec::head_dim>},
    {"model.d_ff", same<&ModelSpec::d_ff>},
    {"model.vocab_size", same<&ModelSpec::vocab_size>},
    {"model.activation", same<&ModelSpec::mlp>},
    {"model.norm", same<&ModelSpec::norm>},
    {"model.positions", same<&ModelSpec::rope>},
    {"model.bias", same<&ModelSpec::bias>},
    {"model.norm_gain", same<&ModelSpec::norm_gain>},
    {"model.parallel_block", same<&ModelSpec::parallel_block>},
    {"model.layer_scale", same<&ModelSpec::layer_scale>},
    {"model.embedding_norm", same<&ModelSpec::embedding_norm>},
    {"model.final_norm", same<&ModelSpec::final_norm>},
    {"model.tied_head", same<&ModelSpec::tied_head>},
    {"model.norm_eps", same<&ModelSpec::norm_eps>},
    {"model.rope_theta", same<&ModelSpec::rope_theta>},
    {"model.rope_scaling", same<&ModelSpec::rope_scaling>},
    {"model.rope_scaling_factor", same<&ModelSpec::rope_scaling_factor>},
    {"model.rope_low_freq_factor", same<&ModelSpec::rope_low_freq_factor>},
    {"model.rope_high_freq_factor", same<&ModelSpec::rope_high_freq_factor>},
    {"model.rope_original_seq_len", same<&ModelSpec::rope_original_seq_len>},
    {"model.rope_mscale", same<&ModelSpec::rope_mscale>},
    {"model.qk_norm", same<&ModelSpec::qk_norm>},
    {"model.window", same<&ModelSpec::window>},
    {"model.mtp_depth", same<&ModelSpec::mtp_depth>},
    {"model.kv_lora_rank", same<&ModelSpec::kv_lora_rank>},
    {"model.q_lora_rank", same<&ModelSpec::q_lora_rank>},
    {"model.qk_rope_head_dim", same<&ModelSpec::qk_rope_head_dim>},
    {"model.v_head_dim", same<&ModelSpec::v_head_dim>},
    {"model.index_top_k", same<&ModelSpec::index_top_k>},
    {"model.index_heads", same<&ModelSpec::index_heads>},
    {"model.index_head_dim", same<&ModelSpec::index_head_dim>},
    {"model.image_size", same<&ModelSpec::image_size>},
    {"model.image_channels", same<&ModelSpec::image_channels>},
    {"model.width_factor", same<&ModelSpec::width_factor>},
    {"model.base_channels", same<&ModelSpec::base_channels>},
    {"model.widen_first_conv", same<&ModelSpec::widen_first_conv>},
    {"model.batch_norm", same<&ModelSpec::batch_norm>},
    {"model.experts", same<&ModelSpec::experts>},
    {"model.top_k", same<&ModelSpec::top_k>},
    {"model.shared_experts", same<&ModelSpec::shared_experts>},
    {"model.dense_layers", same<&ModelSpec::dense_layers>},
    {"model.dense_d_ff", same<&ModelSpec::dense_d_ff>},
    {"model.router", same<&ModelSpec::router>},
    {"model.expert_groups", same<&ModelSpec::expert_groups>},
    {"model.top_groups", same<&ModelSpec::top_groups>},
    {"model.routed_scaling", same<&ModelSpec::routed_scaling>},
    {"model.lora_rank", same_if_adapted<&ModelSpec::lora_rank>},
    {"model.lora_alpha", same_if_adapted<&ModelSpec::lora_scale>},
    {"model.lora_targets", same_if_adapted<&ModelSpec::lora_targets>},
};

std::string text_of(const RunConfig& config, std::string_view key) {
  for (const ConfigField& field : config_fields(config)) {
    if (field.key() == key) return toml_text(field);
  }
  return "";
}

// The number that the model has, where the key says only how it is derived.
std::string shown(const RunConfig& config, const ModelSpec& model, std::string_view key) {
  if (key == "model.lora_alpha" && config.model.lora_alpha == 0.0) {
    return fmt::format("{:g} (the default, 2 model.lora_rank)",
                       model.lora_scale * double(model.lora_rank));
  }
  if (key == "model.vocab_size") return std::to_string(model.vocab_size);
  return text_of(config, key);
}

// Adapters of one shape do not become those of another, but the model that they make does.
std::string adapters_remedy(const ModelKey& key, const std::string& saved,
                            const std::string& folder) {
  return fmt::format(
      "resume with {} = {}, or train new adapters on the merged weights: `trireme checkpoint "
      "export "
      "{} --format hf --out MERGED`, then `trireme checkpoint import MERGED --trainable --out "
      "BASE`, "
      "and resume from BASE with another --out",
      key.key, saved, folder);
}

// The first key by which the models differ, or null.
const ModelKey* changed_key(const ModelSpec& saved, const ModelSpec& now) {
  const auto* const found =
      std::find_if(std::begin(kModelKeys), std::end(kModelKeys),
                   [&](const ModelKey& key) { return !key.is_same(saved, now); });
  return found == std::end(kModelKeys) ? nullptr : found;
}

Status check_model(const RunConfig& was, const RunPlan& plan, const std::string& folder) {
  TRIREME_TRY(model, resolve_model(was.model, plan.model.vocab_size));
  const ModelKey* const key = changed_key(model, plan.model);
  if (key != nullptr && key->key.starts_with("model.lora_")) {
    const std::string saved = shown(was, model, key->key);
    return usage(fmt::format("{} = {}, but the adapters in {} have {}: {}", key->key,
                             shown(plan.config, plan.model, key->key), folder, saved,
                             adapters_remedy(*key, saved, folder)));
  }
  return check_same_model(was, plan.config, plan.model, folder,
                          "keep it to resume, or train the other model with another --out");
}

// The state of the optimizer is saved of trained parameters alone.
Status check_frozen_before(const RunConfig& was, const RunPlan& plan, const std::string& folder) {
  const OptimConfig& optim = plan.config.optim;
  const bool has_state = optim.name != OptimizerKind::Sgd || optim.momentum != 0.0;
  if (!has_state || was.optim.frozen == optim.frozen) return Done{};
  TRIREME_TRY(model, resolve_model(was.model, plan.model.vocab_size));
  model.frozen = was.optim.frozen;
  std::set<std::string> was_frozen;
  for (const ParamSpec& param : param_table(model, whole_model(model))) {
    if (!param.is_trained) was_frozen.insert(param.name);
  }
  for (const ParamSpec& param : param_table(plan.model, whole_model(plan.model))) {
    if (!param.is_trained || !was_frozen.contains(param.name)) continue;
    return usage(fmt::format(
        "optim.frozen = \"{}\" trains {}, which was frozen in {} (optim.frozen = \"{}\"), so there "
        "is no state of the optimizer of it: resume with that value, or begin anew with the "
        "weights: `trireme checkpoint export {} --format hf --out WEIGHTS`, then `trireme "
        "checkpoint import WEIGHTS --trainable --out BASE`, and resume from BASE with another "
        "--out",
        optim.frozen, param.name, folder, was.optim.frozen, folder));
  }
  return Done{};
}

}  // namespace

bool is_model_key(std::string_view key) {
  return std::ranges::find(kModelKeys, key, &ModelKey::key) != std::end(kModelKeys);
}

Status check_same_model(const RunConfig& was, const RunConfig& config, const ModelSpec& model,
                        const std::string& folder, std::string_view remedy) {
  TRIREME_TRY(saved, resolve_model(was.model, model.vocab_size));
  const ModelKey* const key = changed_key(saved, model);
  if (key == nullptr) return Done{};
  return usage(fmt::format("{} = {}, but {} holds the weights of a model with {}: {}", key->key,
                           shown(config, model, key->key), folder, shown(was, saved, key->key),
                           remedy));
}

Result<std::string> changes_since(const Checkpoint& checkpoint, const RunPlan& plan) {
  const std::string name = "config.resolved.toml";
  if (!checkpoint.index().attached.contains(name)) return std::string();
  TRIREME_TRY(text, checkpoint.read_attached(name));
  auto loaded = load_config_text(text, checkpoint.folder() + "/" + name, {});
  if (!loaded.ok()) return damaged(loaded.error().message);
  const RunConfig& was = loaded->config;
  TRIREME_TRY_DONE(check_model(was, plan, checkpoint.folder()));
  TRIREME_TRY_DONE(check_frozen_before(was, plan, checkpoint.folder()));
  const std::vector<ConfigField> before = config_fields(was), now = config_fields(plan.config);
  std::string changes;
  for (size_t i = 0; i < now.size(); ++i) {
    const std::string key = now[i].key();
    const bool is_reported = now[i].effect == FieldEffect::Results &&
                             now[i].section != "parallel" && key != "model.preset" &&
                             !is_model_key(key);
    if (!is_reported) continue;
    const std::string from = toml_text(before[i]), to = toml_text(now[i]);
    if (from == to) continue;
    changes += fmt::format("{}{} {} -> {}", changes.empty() ? "" : ", ", key, from, to);
  }
  return changes;
}

}  // namespace trireme
