#include "cli/plan_command.h"

#include <fmt/format.h>

#include <ostream>

#include "base/units.h"
#include "device/host.h"
#include "planner/price.h"
#include "train/session.h"
#include "train/summary.h"

namespace trireme {
namespace {

std::string table_line(const std::string& name, const std::string& value) {
  return fmt::format("  {:<22}{:>14}\n", name, value);
}

}  // namespace

HostFacts this_host() { return {available_memory_bytes(), num_available_cores(), 0}; }

std::string describe_plan(const RunPlan& plan) {
  const ModelSpec& model = plan.model;
  std::string text = fmt::format(
      "model      {} layers x {} (heads {}/{} x {}, d_ff {}), vocabulary {}, {} tokens\n",
      model.layers, model.d_model, model.heads, model.kv_heads, model.head_dim, model.d_ff,
      model.vocab_size, model.seq_len);
  text +=
      fmt::format("parameters {} ({})\n", plan.num_params, format_count(double(plan.num_params)));
  text += fmt::format("FLOPs      {} per token and training step (causal attention)\n",
                      format_count(plan.flops_per_token.total()));
  text += fmt::format(
      "batch      {} sequences = {} tokens a step: {} micro-batch{} of {} on {} thread{}\n",
      plan.global_sequences, plan.tokens_per_step(), plan.num_microbatches,
      plan.num_microbatches == 1 ? "" : "es", plan.shape.micro_sequences, plan.num_threads,
      plan.num_threads == 1 ? "" : "s");
  const std::string program = to_string(plan.program, 1);
  text += fmt::format("program    {}\n",
                      program.size() > 100 ? program.substr(0, 96) + " ..." : program);
  text += "memory of rank 0\n";
  for (int c = 0; c < kNumMemoryClasses; ++c) {
    if (plan.memory.class_bytes[c] == 0) continue;
    text += table_line(std::string(name_of(static_cast<MemoryClass>(c))),
                       format_bytes(plan.memory.class_bytes[c]));
  }
  text += table_line("peak", format_bytes(plan.memory.peak_bytes));
  text += table_line("largest tensor", largest_tensor(plan.memory, plan.tables));
  return text;
}

Result<int> run_plan(const PlanOptions& options, CommandIo& io) {
  TRIREME_TRY(loaded, load_config(options.config, io));
  TRIREME_TRY(plan, plan_session(loaded.config, this_host()));
  io.out << (options.json ? plan_json(plan, {}) : describe_plan(plan));
  return 0;
}

}  // namespace trireme
