#include "schema/run_rules.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

#include "schema/batch.h"
#include "schema/parity_code.h"
#include "schema/sample_ranges.h"

namespace trireme {
namespace {

// True for "" and for numbers of up to six digits separated by commas.
bool is_rank_list(std::string_view text) {
  int digits = 0;
  for (const char c : text) {
    if (c == ',' && digits == 0) return false;
    if (c != ',' && (c < '0' || c > '9' || digits == 6)) return false;
    digits = c == ',' ? 0 : digits + 1;
  }
  return text.empty() || digits > 0;
}

// The noise is the difference between the gradients of a small and of a large batch.
void noise_scale_rules(ConfigRules& rules, const RunConfig& config) {
  const int64_t every = config.run.noise_scale_every;
  rules.at_least("run.noise_scale_every", double(every), 0);
  if (every <= 0) return;
  const auto need = [&](bool holds, std::string why, std::string remedy) {
    rules.require(holds, "run.noise_scale_every", std::move(why), std::move(remedy));
  };
  const bool has_one = config.parallel.dp == 1 && microbatches_of_step(config) == 1;
  need(!has_one,
       "compares the gradient of one micro-batch with that of the step, which has no more",
       "make batch.micro_sequences smaller, or set run.noise_scale_every = 0");
  const ModelConfig& model = config.model;
  const bool has_router_loss =
      model.family == ModelFamily::Moe && (model.aux_loss > 0.0 || model.z_loss > 0.0);
  need(!has_router_loss, "measures a loss over targets, and a router's losses count every token",
       "set model.aux_loss = 0 and model.z_loss = 0, or run.noise_scale_every = 0");
  need(config.parallel.staleness == 0, "needs ranks that step together",
       "set parallel.staleness = 0, or run.noise_scale_every = 0");
}

// The ranks agree on the verdict of every check after a step that they make together.
void corruption_rules(ConfigRules& rules, const RunConfig& config) {
  for (const auto& [key, every] :
       {std::pair{"run.check_state_every", config.run.check_state_every},
        {"run.replay_every", config.run.replay_every},
        {"run.replay_elsewhere_every", config.run.replay_elsewhere_every},
        {"run.check_products_every", config.run.check_products_every}}) {
    rules.at_least(key, double(every), 0);
    rules.require(every <= 0 || config.parallel.staleness == 0, key,
                  "needs ranks that step together",
                  fmt::format("set parallel.staleness = 0, or {} = 0", key));
  }
}

void memory_rules(ConfigRules& rules, const RunConfig& config) {
  rules.at_least("memory.limit_bytes", config.memory.limit_bytes, 0);
  rules.at_least("memory.offload_buffer_bytes", double(config.memory.offload_buffer_bytes), 4096);
  int exponent = 0;
  const double scale = config.precision.loss_scale;
  const bool is_power = scale > 0.0 && std::frexp(scale, &exponent) == 0.5;
  rules.require(is_power && exponent > -24 && exponent <= 25, "precision.loss_scale",
                "must be a power of two between 2^-24 and 2^24", "try 256.0");
  rules.at_least("precision.loss_scale_window", config.precision.loss_scale_window, 1);
}

void checkpoint_rules(ConfigRules& rules, const RunConfig& config) {
  const auto steps = [](int64_t every) { return every == kAutoSteps ? 0.0 : double(every); };
  rules.at_least("checkpoint.every", steps(config.checkpoint.every), 0);
  rules.at_least("checkpoint.keep", config.checkpoint.keep, 0);
  rules.at_least("checkpoint.keep_every", config.checkpoint.keep_every, 0);
  rules.at_least("checkpoint.memory_every", steps(config.checkpoint.memory_every), 0);
  const int64_t every = config.checkpoint.every, keep_every = config.checkpoint.keep_every;
  rules.require(
      every != kAutoSteps || keep_every == 0, "checkpoint.keep_every",
      "keeps multiples of a number of steps, and checkpoint.every = \"auto\" saves at any "
      "step",
      "set checkpoint.keep_every = 0, or give checkpoint.every a number");
  if (every > 0 && keep_every > 0) {
    rules.require(keep_every % every == 0, "checkpoint.keep_every",
                  fmt::format("must be a multiple of checkpoint.every = {}", every),
                  fmt::format("try {}", (keep_every / every + 1) * every));
  }
  const Result<ParityChoice> parity = parse_parity(config.checkpoint.parity);
  rules.require(parity.ok(), "checkpoint.parity", parity.ok() ? "" : parity.error().message,
                "try \"auto\"");
  rules.require(config.checkpoint.timeout_s > 0.0, "checkpoint.timeout_s", "must be positive",
                "try 300.0");
}

// Refuses what needs ranks that step together, because asynchronous workers do not.
void stale_rules(ConfigRules& rules, const RunConfig& config) {
  const RunSection& run = config.run;
  const bool is_stale = config.parallel.staleness > 0;  // workers do not agree between steps
  rules.require(!is_stale || config.checkpoint.every != kAutoSteps, "checkpoint.every",
                "\"auto\" needs ranks that step together, and parallel.staleness is above 0",
                "give a number of steps");
  rules.require(!is_stale || run.spike == SpikeChoice::None, "run.spike",
                "needs ranks that step together, and parallel.staleness is above 0",
                "set run.spike = \"none\"");
  rules.require(!is_stale || !run.skip_bad_batches, "run.skip_bad_batches",
                "needs ranks that step together, and parallel.staleness is above 0",
                "set run.skip_bad_batches = false");
  rules.require(!is_stale || run.skip_samples.empty(), "run.skip_samples",
                "needs ranks that step together, and parallel.staleness is above 0",
                "leave it empty");
}

// Refuses what sums in slices of heads cannot do.
void mesh_mode_rules(ConfigRules& rules, const RunConfig& config) {
  if (config.run.reproducible != Reproducible::Mesh) return;
  const auto require = [&](bool holds, const std::string& why, const std::string& remedy) {
    rules.require(holds, "run.reproducible", why, remedy);
  };
  require(config.model.family != ModelFamily::Moe,
          "is for model.family = \"gpt2\" and \"llama\": a router's gradient is summed over tp "
          "ranks at the end of a step",
          "take \"layout\"");
  require(!config.model.parallel_block,
          "keeps the sums of attention and MLP apart; with "
          "model.parallel_block they are one sum",
          "set run.reproducible = \"layout\", or model.parallel_block = false");
  require(!config.model.qk_norm,
          "sums gradients in slices of heads; the gain of "
          "model.qk_norm is of all heads",
          "take \"layout\"");
  require(config.model.kv_lora_rank <= 0,
          "sums gradients in slices of heads; the latents of "
          "model.kv_lora_rank are of all heads",
          "take \"layout\"");
  require(!config.parallel.sequence,
          "with parallel.sequence = true would sum gradients of norms over micro-batches "
          "before tp ranks",
          "set parallel.sequence = false or take \"layout\"");
}

void validation_rules(ConfigRules& rules, const RunConfig& config) {
  const RunSection& run = config.run;
  rules.at_least("run.eval_every", run.eval_every, 0);
  rules.at_least("run.eval_sequences", run.eval_sequences, 1);
  rules.at_least("run.stop_patience", run.stop_patience, 0);
  rules.require(run.stop_patience == 0 || run.eval_every > 0, "run.stop_patience",
                "counts validations, and run.eval_every = 0 validates only at the last step",
                "set run.eval_every");
  rules.require(run.stop_patience == 0 || config.data.source == DataSource::Synthetic ||
                    !config.data.val.empty(),
                "run.stop_patience", "counts validations, and there is no validation data",
                "name a token file with data.val");
  rules.at_least("run.sample_every", run.sample_every, 0);
  rules.at_least("run.sample_tokens", run.sample_tokens, 0);
}

}  // namespace

void run_rules(ConfigRules& rules, const RunConfig& config) {
  const RunSection& run = config.run;
  memory_rules(rules, config);
  checkpoint_rules(rules, config);
  stale_rules(rules, config);
  const auto skipped = parse_sample_ranges(run.skip_samples);
  rules.require(skipped.ok(), "run.skip_samples", skipped.ok() ? "" : skipped.error().message,
                "write such as \"28-31,96-99\", or leave it empty");
  rules.at_least("run.steps", run.steps, 1);
  rules.at_least("run.stop_after", run.stop_after, 0);
  mesh_mode_rules(rules, config);
  rules.in_range("run.threads_per_rank", run.threads_per_rank, 0, 4097);
  rules.require(run.comm_timeout_s > 0.0, "run.comm_timeout_s", "must be positive", "try 60.0");
  validation_rules(rules, config);
  rules.at_least("trace.first_step", config.trace.first_step, 1);
  rules.at_least("trace.steps", config.trace.steps, 0);
  rules.require(is_rank_list(config.trace.ranks), "trace.ranks",
                "must be rank numbers between commas", "try \"0,3\"");
  rules.at_least("run.histograms_every", run.histograms_every, 0);
  noise_scale_rules(rules, config);
  corruption_rules(rules, config);
  rules.in_range("run.prometheus_port", run.prometheus_port, 0, 65536);
  rules.at_least("run.metrics_bytes", run.metrics_bytes, 0);
}

}  // namespace trireme
