#include "cli/plan_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "api/this_machine.h"
#include "base/units.h"
#include "cli/explain_plan.h"
#include "config/cluster_file.h"
#include "planner/predict.h"
#include "train/session.h"
#include "train/summary.h"

namespace trireme {
namespace {

std::string table_line(const std::string& name, const std::string& value) {
  return fmt::format("  {:<22}{:>14}\n", name, value);
}

// The configuration with its vocabulary, which the data told the plan.
RunConfig with_vocabulary_of(RunConfig config, const RunPlan& plan) {
  config.model.vocab_size = plan.model.vocab_size;
  return config;
}

std::string priced_line(const RunPlan& plan, const Hardware& hardware) {
  const double step_s = predicted_step_s(plan, hardware);
  return fmt::format("time       {} a step, {} tokens/s, predicted for {}\n",
                     format_seconds(step_s), format_rate(double(plan.tokens_per_step()) / step_s),
                     hardware.name);
}

}  // namespace

std::string describe_plan(const RunPlan& plan) {
  const ModelSpec& model = plan.model;
  std::string text = fmt::format(
      "model      {} layers x {} (heads {}/{} x {}, d_ff {}), vocabulary {}, {} tokens\n",
      model.layers, model.d_model, model.heads, model.kv_heads, model.head_dim, model.d_ff,
      model.vocab_size, model.seq_len);
  text +=
      fmt::format("parameters {} ({})\n", plan.num_params, format_count(double(plan.num_params)));
  if (plan.model.has_experts()) {
    const int64_t active = num_active_params(plan.model);
    text += fmt::format("experts    {} a layer, {} for a token and {} shared: it meets {} ({})\n",
                        plan.model.experts, plan.model.top_k, plan.model.shared_experts, active,
                        format_count(double(active)));
  }
  text += fmt::format("FLOPs      {} per token and training step (causal attention)\n",
                      format_count(plan.flops_per_token.total()));
  text += fmt::format(
      "batch      {} sequences = {} tokens a step: {} micro-batch{} of {} on {} thread{}\n",
      plan.global_sequences, plan.tokens_per_step(), plan.num_microbatches,
      plan.num_microbatches == 1 ? "" : "es", plan.shape.micro_sequences, plan.num_threads,
      plan.num_threads == 1 ? "" : "s");
  if (plan.num_ranks() > 1) {
    const std::string ep = plan.mesh.ep == 1 ? "" : fmt::format(" (ep {} of it)", plan.mesh.ep);
    text += fmt::format("ranks      {} = tp {} x cp {} x pp {} x dp {}{}, schedule {}, ZeRO {}\n",
                        plan.num_ranks(), plan.mesh.tp, plan.mesh.cp, plan.mesh.pp, plan.mesh.dp,
                        ep, plan.schedule.kind, plan.config.parallel.zero);
  }
  const RankPlan& rank = plan.ranks.front();
  const std::string program = to_string(rank.program, plan.schedule.num_chunks);
  text += fmt::format("program    {}\n",
                      program.size() > 100 ? program.substr(0, 96) + " ..." : program);
  text += "memory of rank 0\n";
  for (int c = 0; c < kNumMemoryClasses; ++c) {
    if (rank.memory.class_bytes[c] == 0) continue;
    text += table_line(std::string(name_of(static_cast<MemoryClass>(c))),
                       format_bytes(rank.memory.class_bytes[c]));
  }
  text += table_line("peak", format_bytes(rank.memory.peak_bytes));
  text += table_line("largest tensor", largest_tensor(rank.memory, rank.chunks));
  return text;
}

Result<int> run_plan(const PlanOptions& options, CommandIo& io) {
  TRIREME_TRY(loaded, load_config(options.config, io));
  HostFacts host = this_host();
  Hardware hardware;
  if (options.cluster.empty()) {
    TRIREME_TRY(measured, measure_this_machine(loaded.config, host));
    hardware = measured;
  } else {
    TRIREME_TRY(described, load_hardware(options.cluster));
    hardware = described;
    host = {.memory_bytes = 0, .num_cores = hardware.threads, .hardware = hardware};
    int64_t& limit = loaded.config.memory.limit_bytes;  // of each rank, wherever it is
    if (limit == 0) limit = hardware.memory_bytes;
  }
  TRIREME_TRY(plan, plan_session(loaded.config, host));
  PlanExplanation explanation{plan, hardware, {}};
  if (options.explain) {
    TRIREME_TRY(ways, alternatives(with_vocabulary_of(loaded.config, plan), host, hardware));
    explanation.alternatives = ways;
  }
  if (options.json) {
    auto json = nlohmann::ordered_json::parse(plan_json(plan, predict_ranks(plan, hardware)));
    json["hardware"] = hardware.name;
    if (options.explain) json["explanation"] = explanation_json(explanation);
    io.out << json.dump(2) << "\n";
  } else {
    io.out << describe_plan(plan) << priced_line(plan, hardware);
    if (options.explain) io.out << explanation_text(explanation);
  }
  return 0;
}

}  // namespace trireme
