#include "schema/adapter_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/input_limits.h"
#include "schema/model_spec.h"

namespace trireme {
namespace {

// Rows and columns of a matrix of a layer.
struct MatrixSides {
  int64_t rows = 0, columns = 0;
  int64_t smaller() const { return std::min(rows, columns); }
};
MatrixSides sides_of(LoraTarget target, const ModelSpec& spec) {
  switch (target) {
    case LoraTarget::Q:
      return {spec.q_width(), spec.d_model};
    case LoraTarget::K:
      return {spec.k_width(), spec.d_model};
    case LoraTarget::V:
      return {spec.v_width(), spec.d_model};
    case LoraTarget::QA:
      return {spec.q_lora_rank, spec.d_model};
    case LoraTarget::QB:
      return {spec.q_width(), spec.q_lora_rank};
    case LoraTarget::KvA:  // of its two matrices together
      return {spec.kv_lora_rank + spec.qk_rope_head_dim, spec.d_model};
    case LoraTarget::KvB:
      return {spec.heads * (spec.head_dim + spec.v_head_dim), spec.kv_lora_rank};
    case LoraTarget::O:
      return {spec.d_model, spec.o_width()};
    case LoraTarget::Gate:
    case LoraTarget::Up:
      return {spec.d_ff, spec.d_model};
    case LoraTarget::Down:
      return {spec.d_model, spec.d_ff};
  }
  return {};
}

// The matrices of the model's attention: "q,k,v,o".
LoraTargets attention_targets(const ModelSpec& spec) {
  LoraTargets targets;
  for (const LoraTarget target : kLoraTargets) {
    const bool is_of_mlp =
        target == LoraTarget::Gate || target == LoraTarget::Up || target == LoraTarget::Down;
    if (!is_of_mlp && spec.has_target(target)) targets.add(target);
  }
  return targets;
}

// Every matrix that is named exists.
void target_rules(ConfigRules& rules, const ModelSpec& spec) {
  for (const LoraTarget target : kLoraTargets) {
    if (!spec.lora_targets.contains(target) || spec.has_target(target)) continue;
    if (target == LoraTarget::Gate) {
      return rules.require(false, "model.lora_targets",
                           "names gate, which only an MLP with SwiGLU has",
                           "leave it out, or take \"all\"");
    }
    const std::string attention = to_string(attention_targets(spec));
    return rules.require(false, "model.lora_targets",
                         fmt::format("names {}, and the matrices of this model's attention are {}",
                                     name_of(target), attention),
                         fmt::format("try \"{}\"", attention));
  }
}

}  // namespace

void adapter_rules(ConfigRules& rules, const ModelConfig& model) {
  rules.size("model.lora_rank", model.lora_rank, 0, limits::kWidth);
  rules.at_least("model.lora_alpha", model.lora_alpha, 0.0);
  if (model.lora_rank <= 0) {
    const std::string remedy = "set model.lora_rank = 8, or leave this key out";
    rules.require(model.lora_alpha == 0.0, "model.lora_alpha",
                  "needs adapters, but model.lora_rank = 0 means none", remedy);
    rules.require(model.lora_targets == "all", "model.lora_targets",
                  "needs adapters, but model.lora_rank = 0 means none", remedy);
    return;
  }
  if (model.lora_targets != "all") {
    const Result<LoraTargets> targets = parse_lora_targets(model.lora_targets);
    if (!targets.ok()) {
      return rules.require(false, "model.lora_targets", targets.error().message,
                           "try \"all\" or \"q,v\"");
    }
  }
  const ModelSpec spec = with_defaults(model, 0);
  const auto names = [&](LoraTarget target) { return spec.lora_targets.contains(target); };
  const bool names_mlp =
      names(LoraTarget::Gate) || names(LoraTarget::Up) || names(LoraTarget::Down);
  if (spec.has_experts() && names_mlp) {
    return rules.require(false, "model.lora_targets",
                         "names matrices of experts, which have no adapters",
                         fmt::format("try \"{}\"", to_string(attention_targets(spec))));
  }
  target_rules(rules, spec);
  const bool are_sizes = spec.d_model >= 1 && spec.heads >= 1 && spec.kv_heads >= 1 &&
                         spec.head_dim >= 1 && spec.d_ff >= 1;
  for (const LoraTarget target : kLoraTargets) {
    if (!are_sizes || !names(target) || !spec.has_target(target)) continue;
    const int64_t most = sides_of(target, spec).smaller();
    if (model.lora_rank <= most) continue;
    return rules.require(
        false, "model.lora_rank",
        fmt::format("must not exceed {}, the smaller side of the matrix {}", most, name_of(target)),
        fmt::format("try {}, or leave {} out of model.lora_targets", std::min<int64_t>(most, 8),
                    name_of(target)));
  }
}

}  // namespace trireme
