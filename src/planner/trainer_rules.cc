#include "planner/trainer_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/nearest_name.h"

namespace trireme {
namespace {

using Cut = KeptActivation::Cut;

constexpr std::array<std::string_view, 3> kTrainerNames = {"megatron", "torchtitan", "deepspeed"};

constexpr double kElementBytes = 2.0;
constexpr double kMaskBytes = 1.0;

// Scores of attention: the softmax and, with dropout, its mask and what is left of it.
double score_bytes(const ModelSpec& model) {
  const double each = double(model.heads) * double(model.seq_len);
  const bool drops = model.dropout > 0.0;
  return each * (kElementBytes + (drops ? kMaskBytes + kElementBytes : 0.0));
}

// What the activation function of the MLP reads and writes.
double mlp_bytes(const ModelSpec& model, const TrainerRules& rules) {
  const double hidden = kElementBytes * double(model.d_ff);
  if (model.mlp != MlpType::Swiglu) return 2.0 * hidden;
  return rules.fuses_gate ? 3.0 * hidden : 4.0 * hidden;
}

}  // namespace

std::string_view name_of(TrainerKind trainer) { return kTrainerNames[size_t(trainer)]; }

Result<TrainerKind> trainer_named(std::string_view name) {
  const auto found = std::find(kTrainerNames.begin(), kTrainerNames.end(), name);
  if (found != kTrainerNames.end()) return TrainerKind(found - kTrainerNames.begin());
  const std::string nearest = nearest_name(name, {kTrainerNames.begin(), kTrainerNames.end()});
  const std::string meant = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  return Error{ErrorKind::Usage, fmt::format("unknown trainer '{}'{} (one of {})", name, meant,
                                             fmt::join(kTrainerNames, " "))};
}

StateBytes StateBytes::shared(int zero, int ranks) const {
  const auto part = [&](double bytes, int level) { return zero >= level ? bytes / ranks : bytes; };
  return {part(params, 3), part(grads, 2), part(optimizer, 1)};
}

TrainerRules rules_of(TrainerKind trainer) {
  switch (trainer) {
    case TrainerKind::Megatron:  // fp32 gradients; the distributed optimizer is ZeRO 1
      return {.state = {2, 4, 12}, .most_zero = 1, .offloads_optimizer = true};
    case TrainerKind::Torchtitan:  // fp32 parameters, and 16-bit blocks while they compute
      return {.state = {4, 4, 8},
              .rebuilds_blocks = true,
              .offloads_all = true,
              .fuses_gate = false,
              .keeps_every_other_product = true};
    case TrainerKind::DeepSpeed:  // fp32 gradients beside those of 16 bits that are sent
      return {.state = {2, 2, 16},
              .rebuilds_blocks = true,
              .offloads_optimizer = true,
              .offloads_all = true,
              .fuses_gate = false};
  }
  TRIREME_CHECK(false, "every trainer has rules");
  return {};
}

TrainerRules megatron_with_scores() {
  TrainerRules rules = rules_of(TrainerKind::Megatron);
  rules.stores_scores = true;
  return rules;
}

std::vector<KeptActivation> kept_by_layer(const ModelSpec& model, const TrainerRules& rules) {
  const double width = kElementBytes * double(model.d_model);
  const double queries = kElementBytes * double(model.q_width());
  const double keys = kElementBytes * double(model.k_width() + model.v_width());
  const double outputs = kElementBytes * double(model.o_width());
  const double mask = model.dropout > 0.0 ? kMaskBytes * double(model.d_model) : 0.0;
  const double log_sums = 4.0 * double(model.heads);
  return {{"input of the first norm", width},
          {"input of attention", width},
          {"queries", queries, Cut::Tensor},
          {"keys and values", keys, Cut::Tensor},
          {"scores", rules.stores_scores ? score_bytes(model) : 0.0, Cut::Tensor, true},
          {"sums of exponentials", rules.stores_scores ? 0.0 : log_sums, Cut::Tensor},
          {"output of attention", outputs, Cut::Tensor},
          {"mask behind attention", mask},
          {"input of the second norm", width},
          {"input of the MLP", width},
          {"around the activation function", mlp_bytes(model, rules), Cut::Tensor},
          {"mask behind the MLP", mask}};
}

std::vector<KeptActivation> kept_with_selective(const ModelSpec& model, const TrainerRules& rules) {
  if (!rules.keeps_every_other_product) {
    std::vector<KeptActivation> kept = kept_by_layer(model, rules);
    std::erase_if(kept, [](const KeptActivation& value) { return value.is_score; });
    return kept;
  }
  const double width = kElementBytes * double(model.d_model);
  const double queries = kElementBytes * double(model.q_width());
  const double hidden = kElementBytes * double(model.d_ff);
  // The products of queries, values, the gate (or what goes up), and with a gate what goes down.
  return {{"input of the first norm", width},
          {"queries", queries, Cut::Tensor},
          {"values", kElementBytes * double(model.v_width()), Cut::Tensor},
          {"output of attention", kElementBytes * double(model.o_width()), Cut::Tensor},
          {"sums of exponentials", 4.0 * double(model.heads), Cut::Tensor},
          {"before the activation function", hidden, Cut::Tensor},
          {"output of the MLP", model.mlp == MlpType::Swiglu ? width : 0.0}};
}

double kept_bytes(const ModelSpec& model, const TrainerRules& rules, const StageShape& shape) {
  const double tokens = double(shape.micro_sequences) * double(model.seq_len) / shape.cp;
  const double sequence_parts = shape.sequence_parallel ? shape.tp : 1;
  if (shape.recompute == Recompute::Full) {
    return tokens * kElementBytes * double(model.d_model) / sequence_parts;
  }
  const bool is_selective = shape.recompute == Recompute::Selective;
  double bytes = 0.0;
  for (const KeptActivation& kept :
       is_selective ? kept_with_selective(model, rules) : kept_by_layer(model, rules)) {
    bytes += kept.bytes_per_token / (kept.cut == Cut::Tensor ? shape.tp : sequence_parts);
  }
  return tokens * bytes;
}

double share_held_for_weights(const ModelSpec& model, const TrainerRules& rules) {
  double found = 0.0;
  for (const KeptActivation& kept : kept_by_layer(model, rules)) found += kept.bytes_per_token;
  const double width = double(model.d_model), hidden = double(model.d_ff);
  const double inputs = 2.0 * width + double(model.o_width()) + hidden;
  const double grads = double(model.qkv_width()) + 2.0 * width + double(model.up_width());
  return std::min(1.0, kElementBytes * (inputs + grads) / found);
}

}  // namespace trireme
