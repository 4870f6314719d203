#include "planner/run_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest_name.h"
#include "base/units.h"
#include "device/stream.h"
#include "optim/optimizer.h"
#include "program/make_schedule.h"

namespace trireme {
namespace {

Error usage(std::string message) { return {ErrorKind::Usage, std::move(message)}; }

Result<Recompute> parse_recompute(const std::string& name) {
  if (name == "none") return Recompute::None;
  if (name == "selective") return Recompute::Selective;
  if (name == "full") return Recompute::Full;
  return usage(
      fmt::format("memory.recompute = \"{}\" is unknown; use none, selective or full", name));
}

Result<DType> parse_compute(const std::string& name) {
  if (name == "fp32") return DType::F32;
  if (name == "bf16") return DType::BF16;
  return usage(fmt::format("precision.compute = \"{}\" is unknown; use fp32 or bf16", name));
}

Result<AccumulateMode> parse_reproducible(const std::string& name) {
  if (name == "fixed") return AccumulateMode::Fixed;
  if (name == "layout") return AccumulateMode::Layout;
  return usage(fmt::format("run.reproducible = \"{}\" is unknown; use fixed or layout", name));
}

// The batch of one step, from whichever of the two keys is set.
Result<int64_t> global_sequences_of(const BatchConfig& batch, int64_t seq_len, int dp) {
  if (batch.global_sequences > 0 && batch.global_tokens > 0 &&
      batch.global_sequences * seq_len != batch.global_tokens) {
    return usage(fmt::format(
        "batch.global_sequences = {} contradicts batch.global_tokens = {} at model.seq_len = {}; "
        "set one of them",
        batch.global_sequences, batch.global_tokens, seq_len));
  }
  if (batch.global_tokens > 0 && batch.global_tokens % seq_len != 0) {
    return usage(
        fmt::format("batch.global_tokens = {} must be a multiple of model.seq_len = {}; try {}",
                    batch.global_tokens, seq_len,
                    std::max<int64_t>(1, batch.global_tokens / seq_len) * seq_len));
  }
  if (batch.global_sequences > 0) return batch.global_sequences;
  if (batch.global_tokens > 0) return batch.global_tokens / seq_len;
  return batch.micro_sequences * dp;
}

Status check_parallel(const ParallelConfig& parallel) {
  const std::pair<const char*, int> degrees[] = {{"dp", parallel.dp},
                                                 {"tp", parallel.tp},
                                                 {"pp", parallel.pp},
                                                 {"cp", parallel.cp},
                                                 {"ep", parallel.ep}};
  for (const auto& [axis, degree] : degrees) {
    if (degree == 1) continue;
    return Error{degree < 1 ? ErrorKind::Usage : ErrorKind::Infeasible,
                 fmt::format("parallel.{} = {}: this version trains on one rank; set it to 1", axis,
                             degree)};
  }
  return Done{};
}

// Program, tables and memory of a resolved model; fills the rest of the plan.
Status compile(RunPlan& plan, AccumulateMode mode, const OptimizerStateSpec& state) {
  TRIREME_TRY(schedule, make_schedule(plan.config.parallel.schedule,
                                      {1, static_cast<int>(plan.num_microbatches), 1}));
  plan.microbatches = MicrobatchMap::contiguous(static_cast<int>(plan.num_microbatches));
  Accumulated accumulated = accumulate(schedule.programs[0], 1, mode, plan.microbatches);
  plan.program = std::move(accumulated.program);
  append_step(plan.program);
  plan.shape.split_backward =
      std::any_of(plan.program.begin(), plan.program.end(),
                  [](const Action& action) { return action.kind == ActionKind::B; });
  plan.shape.tied_use_apart = mode == AccumulateMode::Layout;
  plan.shape.optimizer_state = state;
  plan.tables = stage_tables(plan.model, plan.stage, plan.shape);
  plan.memory = plan_memory(plan.program, plan.tables, plan.num_threads * kWorkspaceBytesPerThread);
  return Done{};
}

struct Remedy {
  std::string change;
  Recompute recompute;
  int64_t micro_sequences;
};

// The first change, cheapest first, whose plan fits; "" when none does.
std::string cheapest_change(const RunPlan& refused, int64_t limit, AccumulateMode mode,
                            const OptimizerStateSpec& state) {
  std::vector<Remedy> remedies;
  const auto add = [&](Recompute recompute, const char* name, int64_t micro) {
    std::string change;
    if (micro != refused.shape.micro_sequences) {
      change = fmt::format("batch.micro_sequences = {}", micro);
    }
    if (recompute != refused.shape.recompute) {
      change += fmt::format("{}memory.recompute = \"{}\"", change.empty() ? "" : " and ", name);
    }
    if (!change.empty()) remedies.push_back({change, recompute, micro});
  };
  std::vector<int64_t> micros = {refused.shape.micro_sequences};
  for (int64_t micro = refused.shape.micro_sequences / 2; micro >= 1; micro /= 2) {
    if (refused.global_sequences % micro == 0) micros.push_back(micro);
  }
  for (int64_t micro : micros) add(refused.shape.recompute, "", micro);
  for (int64_t micro : micros) {
    if (refused.shape.recompute < Recompute::Selective)
      add(Recompute::Selective, "selective", micro);
    if (refused.shape.recompute < Recompute::Full) add(Recompute::Full, "full", micro);
  }
  for (const Remedy& remedy : remedies) {
    RunPlan plan = refused;
    plan.shape.recompute = remedy.recompute;
    plan.shape.micro_sequences = remedy.micro_sequences;
    plan.num_microbatches = plan.global_sequences / remedy.micro_sequences;
    if (compile(plan, mode, state).ok() && plan.memory.arena_bytes <= limit) {
      return fmt::format("{} (needs {})", remedy.change, format_bytes(plan.memory.arena_bytes));
    }
  }
  return "";
}

Error refusal(const RunPlan& plan, int64_t limit, AccumulateMode mode,
              const OptimizerStateSpec& state) {
  const MemoryPlan& memory = plan.memory;
  std::string classes;
  for (int c = 0; c < kNumMemoryClasses; ++c) {
    if (memory.class_bytes[c] == 0) continue;
    classes +=
        fmt::format("{}{} {}", classes.empty() ? "" : ", ", name_of(static_cast<MemoryClass>(c)),
                    format_bytes(memory.class_bytes[c]));
  }
  const std::string remedy = cheapest_change(plan, limit, mode, state);
  return {ErrorKind::Infeasible,
          fmt::format("the plan needs {} but {} is available: reached at action {} ({}) of {}; "
                      "largest tensor {}; {}. {}",
                      format_bytes(memory.arena_bytes), format_bytes(limit),
                      to_string(plan.program[memory.peak_action], 1), memory.peak_action + 1,
                      plan.program.size(), largest_tensor(memory, plan.tables), classes,
                      remedy.empty()
                          ? std::string("No recomputation or micro-batch makes it fit on one rank: "
                                        "a smaller model or more ranks are needed.")
                          : "Cheapest change that fits: " + remedy + ".")};
}

}  // namespace

Result<RunPlan> make_plan(const RunConfig& config, const HostFacts& host) {
  RunPlan plan;
  plan.config = config;
  TRIREME_TRY_DONE(check_parallel(config.parallel));
  TRIREME_TRY(model, resolve_model(config.model, host.data_vocab_size));
  TRIREME_TRY(recompute, parse_recompute(config.memory.recompute));
  TRIREME_TRY(compute, parse_compute(config.precision.compute));
  TRIREME_TRY(mode, parse_reproducible(config.run.reproducible));
  TRIREME_TRY(optimizer, optimizer_kind(config.optim));
  plan.model = model;
  plan.stage = whole_model(model);
  plan.params = param_table(model, plan.stage);
  plan.num_params = num_params(model);
  plan.flops_per_token = model_flops_per_token(model);
  plan.num_threads =
      config.run.threads_per_rank > 0 ? config.run.threads_per_rank : std::max(1, host.num_cores);

  const int64_t micro = config.batch.micro_sequences;
  if (micro <= 0) return usage(fmt::format("batch.micro_sequences = {} must be positive", micro));
  TRIREME_TRY(global, global_sequences_of(config.batch, model.seq_len, config.parallel.dp));
  if (global % micro != 0) {
    return usage(
        fmt::format("batch.micro_sequences = {} must divide the {} sequences of a step; try {}",
                    micro, global, [&] {
                      int64_t divisor = std::min(micro, global);
                      while (global % divisor != 0) --divisor;
                      return divisor;
                    }()));
  }
  plan.global_sequences = global;
  plan.num_microbatches = global / micro;
  plan.shape.micro_sequences = micro;
  plan.shape.compute = compute;
  plan.shape.recompute = recompute;

  const OptimizerStateSpec state = optimizer_state_of(config.optim, optimizer);
  TRIREME_TRY_DONE(compile(plan, mode, state));
  const int64_t limit =
      config.memory.limit_bytes > 0 ? config.memory.limit_bytes : host.memory_bytes;
  if (limit > 0 && plan.memory.arena_bytes > limit) return refusal(plan, limit, mode, state);
  return plan;
}

}  // namespace trireme
