#include "planner/plan_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "schema/run_config_fields.h"

namespace trireme {
namespace {

constexpr std::string_view kOfExperts[] = {
    "model.experts",         "model.top_k",    "model.shared_experts", "model.dense_layers",
    "model.dense_d_ff",      "model.router",   "model.expert_groups",  "model.top_groups",
    "model.capacity_factor", "model.aux_loss", "model.z_loss",         "model.balance_rate"};

// Returns text such as "model.experts, model.top_k": the expert keys that are not at their
// defaults.
std::string set_keys_of_experts(const RunConfig& config) {
  const RunConfig usual;
  const std::vector<ConfigField> fields = config_fields(config);
  const std::vector<ConfigField> usual_fields = config_fields(usual);
  std::vector<std::string> keys;
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool is_of_experts = std::find(std::begin(kOfExperts), std::end(kOfExperts),
                                         fields[i].key()) != std::end(kOfExperts);
    if (is_of_experts && toml_text(fields[i]) != toml_text(usual_fields[i])) {
      keys.push_back(fields[i].key());
    }
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

void warn_of_dead_settings(const RunConfig& config, std::vector<std::string>& warnings) {
  const ParallelConfig& parallel = config.parallel;
  const std::string of_experts =
      config.model.family == ModelFamily::Moe ? "" : set_keys_of_experts(config);
  if (!of_experts.empty()) {
    warnings.push_back(fmt::format("{} has no effect, because model.family = \"{}\" has no experts",
                                   of_experts, name_of(config.model.family)));
  }
  if (parallel.sequence && parallel.tp == 1) {
    warnings.push_back("parallel.sequence = true has no effect, because parallel.tp = 1");
  }
  if (parallel.tp_overlap && parallel.tp == 1) {
    warnings.push_back("parallel.tp_overlap = true has no effect, because parallel.tp = 1");
  }
  if (parallel.context != ParallelConfig{}.context && parallel.cp == 1) {
    warnings.push_back(fmt::format("parallel.context = \"{}\": without effect, for parallel.cp = 1",
                                   name_of(parallel.context)));
  }
}

void warn_of_saves(const RunPlan& plan, std::vector<std::string>& warnings) {
  if (plan.config.checkpoint.memory_every != 0 && !wants_memory_checkpoints(plan.config)) {
    warnings.push_back(
        "checkpoint.memory_every has no effect with memory.offload or parallel.staleness");
  }
  if (!wants_snapshots(plan.config) || plan.takes_snapshots) return;
  warnings.push_back(
      "checkpoint.asynchronous = true has no effect, because the copy of what is saved does not "
      "fit the memory: training waits while a checkpoint is written; free memory, or set "
      "checkpoint.asynchronous = false");
}

void warn_of_samples(const RunPlan& plan, std::vector<std::string>& warnings) {
  const RunConfig& config = plan.config;
  if (config.run.sample_every == 0) return;
  if (config.data.tokenizer.empty()) {
    warnings.push_back("run.sample_every writes no samples, because data.tokenizer is not set");
  } else if (!plan.holds_whole_model(plan.pipeline.front())) {
    warnings.push_back(
        "run.sample_every writes no samples during training, because no rank holds the whole "
        "model; "
        "`trireme generate` writes samples from a checkpoint");
  }
}

}  // namespace

std::vector<std::string> plan_warnings(const RunPlan& plan) {
  std::vector<std::string> warnings;
  const int64_t warmup_steps = plan.config.optim.warmup_steps, steps = plan.config.run.steps;
  if (warmup_steps > steps) {
    warnings.push_back(
        fmt::format("optim.warmup_steps = {} is beyond run.steps = {}: the warm-up is shortened to "
                    "run.steps, and the learning rate reaches optim.lr only at the last step",
                    warmup_steps, steps));
  }
  warn_of_saves(plan, warnings);
  warn_of_samples(plan, warnings);
  warn_of_dead_settings(plan.config, warnings);
  return warnings;
}

}  // namespace trireme
