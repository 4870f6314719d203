#include "schema/optim_rules.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme {
namespace {

void learning_rules(ConfigRules& rules, const RunConfig& config) {
  const OptimConfig& optim = config.optim;
  const OptimConfig usual;
  rules.at_least("optim.lr", optim.lr, 0.0, usual.lr);
  rules.at_least("optim.min_lr", optim.min_lr, 0.0);
  const bool has_lr = optim.lr >= 0.0;
  rules.require(!has_lr || !(optim.min_lr > optim.lr), "optim.min_lr",
                fmt::format("must not be above optim.lr = {}", optim.lr),
                fmt::format("try {}", optim.lr / 10));
  if (optim.schedule == LrScheduleKind::Range) {
    rules.require(
        optim.min_lr > 0.0, "optim.min_lr",
        "must be above 0 with optim.schedule = \"range\", which rises from it by the same "
        "factor every step",
        "try 1e-06");
    rules.require(optim.warmup_steps <= 0, "optim.warmup_steps",
                  "must be 0 with optim.schedule = \"range\", which rises by itself",
                  "set optim.warmup_steps = 0");
  }
  rules.in_range("optim.beta1", optim.beta1, 0.0, 1.0, usual.beta1);
  rules.in_range("optim.beta2", optim.beta2, 0.0, 1.0, usual.beta2);
  rules.require(optim.eps > 0.0 && std::isfinite(optim.eps), "optim.eps",
                "must be positive and finite", "try 1e-08");
  rules.at_least("optim.weight_decay", optim.weight_decay, 0.0);
  rules.in_range("optim.momentum", optim.momentum, 0.0, 1.0, usual.momentum);
  rules.in_range("optim.muon_momentum", optim.muon_momentum, 0.0, 1.0, usual.muon_momentum);
  rules.at_least("optim.qk_clip", optim.qk_clip, 0.0);
  rules.at_least("optim.warmup_steps", optim.warmup_steps, 0);
  rules.at_least("optim.decay_steps", optim.decay_steps, 0);
  rules.at_least("optim.clip_norm", optim.clip_norm, 0.0);
  rules.require(
      !optim.post_validate || config.memory.offload == OffloadChoice::None, "optim.post_validate",
      fmt::format("keeps copies of weights and the optimizer's state in memory from Step "
                  "to Validate, so that what memory.offload = \"{}\" takes out of it "
                  "would stand there again; what it would hide, ranks wait for while the "
                  "first pieces of the state are read anyway",
                  name_of(config.memory.offload)),
      "set optim.post_validate = false or memory.offload = \"none\"", ErrorKind::Infeasible);
}

// Muon updates whole matrices in Step, and the tp ranks take part together.
void muon_rules(ConfigRules& rules, const RunConfig& config) {
  if (config.optim.name != OptimizerKind::Muon) return;
  const auto need = [&](bool holds, std::string rule, std::string remedy) {
    rules.require(holds, "optim.name", std::move(rule), std::move(remedy), ErrorKind::Infeasible);
  };
  need(config.memory.offload == OffloadChoice::None,
       fmt::format("needs whole matrices of the optimizer's state, but memory.offload = \"{}\" "
                   "brings it from the file in pieces",
                   name_of(config.memory.offload)),
       "set memory.offload = \"none\" or optim.name = \"adamw\"");
  need(!config.optim.post_validate,
       "gathers matrices over tp inside the update, which every rank must then make, but "
       "optim.post_validate lets each rank decide alone whether it updates early",
       "set optim.post_validate = false or optim.name = \"adamw\"");
  need(config.parallel.staleness <= 0,
       "updates inside the planned step, but with parallel.staleness a server updates at any time",
       "set parallel.staleness = 0 or optim.name = \"adamw\"");
}

// QK-clip scales weights that Muon updates, on both sides of the logits.
void qk_clip_rules(ConfigRules& rules, const RunConfig& config) {
  if (!(config.optim.qk_clip > 0.0)) return;
  const std::string remedy = "set optim.qk_clip = 0.0, or ";
  rules.require(
      config.optim.name == OptimizerKind::Muon, "optim.qk_clip",
      fmt::format("is a part of Muon, but optim.name = \"{}\"", name_of(config.optim.name)),
      remedy + "optim.name = \"muon\"");
  rules.require(config.model.lora_rank <= 0, "optim.qk_clip",
                fmt::format("scales the weights of queries and keys, which model.lora_rank = {} "
                            "keeps as they are",
                            config.model.lora_rank),
                remedy + "model.lora_rank = 0");
  rules.require(!config.model.qk_norm, "optim.qk_clip",
                "scales weights of queries and keys, which model.qk_norm = true norms again",
                remedy + "model.qk_norm = false");
  rules.require(config.optim.frozen.empty(), "optim.qk_clip",
                fmt::format("scales queries and keys together, but optim.frozen = \"{}\" may keep "
                            "one of them",
                            config.optim.frozen),
                remedy + "optim.frozen = \"\"");
}

// Checks the dtypes in which gradients, moments and weights are kept.
void state_dtype_rules(ConfigRules& rules, const RunConfig& config) {
  const ComputeChoice compute = config.precision.compute;
  rules.require(config.optim.master || compute == ComputeChoice::Bf16, "optim.master",
                compute == ComputeChoice::Fp32
                    ? "leaves out the fp32 copy of 16-bit weights, but precision.compute = "
                      "\"fp32\" has fp32 weights and no copy"
                    : "updates weights in bf16; those in fp16 have too small a range",
                "set optim.master = true or precision.compute = \"bf16\"");
  rules.require(config.optim.grad_dtype == StateChoice::Fp32 || config.model.balance_rate <= 0.0,
                "optim.grad_dtype",
                "counts exactly up to 256 only, and with model.balance_rate the visits of every "
                "expert are counted in the place of a gradient",
                "set optim.grad_dtype = \"fp32\" or model.balance_rate = 0.0");
}

}  // namespace

void optim_rules(ConfigRules& rules, const RunConfig& config) {
  learning_rules(rules, config);
  muon_rules(rules, config);
  qk_clip_rules(rules, config);
  state_dtype_rules(rules, config);
}

}  // namespace trireme
