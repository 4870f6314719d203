#include "reproduce/price_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/compile_plan.h"
#include "planner/memory_as.h"
#include "reproduce/baselines.h"

namespace trireme {

Hardware hardware_of(const PublishedRun& run, Hardware cluster) {
  cluster.practice = run.practice;
  return cluster;
}

Result<RunPlan> plan_run(const PublishedRun& run, const Hardware& hardware) {
  const auto named = [&](const Error& error) {
    return Error{error.kind, fmt::format("{} cannot be planned: {}", run.row, error.message)};
  };
  // A published stage may hold the embedding or the head alone. Our runtime has no such stage, so
  // only the configuration without chunks can be checked.
  RunConfig config = config_of(run);
  config.parallel.schedule = ScheduleKind::OneFOneB;
  config.parallel.chunks = 0;
  Result<RunPlan> plan = start_plan(config, {.hardware = hardware});
  if (!plan.ok()) return named(plan.error());
  plan->config.parallel = run.parallel;
  plan->layers_of_stage = layers_of_stages(run);
  plan->max_live = run.max_live;
  const Status compiled = compile_plan(*plan);
  if (!compiled.ok()) return named(compiled.error());
  return plan;
}

StepTimes slowest_stage(const RunPlan& plan, const Hardware& hardware) {
  const std::vector<StepTimes> stages = predict_stages(plan, hardware);
  return *std::max_element(stages.begin(), stages.end(),
                           [](const auto& a, const auto& b) { return a.step < b.step; });
}

namespace {

// Adds the memory of a run beside what Megatron-LM would hold for it.
Status add_memory(const PublishedRun& run, const RunPlan& plan, ReproducedRows& memory) {
  if (run.memory_gib <= 0.0) return Done{};
  TRIREME_TRY(stages, memory_as(plan, megatron_with_scores()));
  memory.quantity = "greatest memory";
  memory.unit = "GiB";
  memory.digits = 1;
  memory.rows.push_back({.row = run.row,
                         .part = run.part,
                         .measured = run.memory_gib,
                         .predicted = greatest(stages).total() / double(1 << 30)});
  return Done{};
}

}  // namespace

Status price_runs(std::initializer_list<RunsOfCluster> clusters, Reproduction& reproduction) {
  reproduction.table.quantity = "step time";
  reproduction.table.unit = "s";
  std::vector<PublishedRun> all;
  for (const auto& [runs, hardware] : clusters) all.insert(all.end(), runs.begin(), runs.end());
  const double flops = best_constant_flops(all);
  reproduction.constant_flops = flops;
  for (const auto& [runs, cluster] : clusters) {
    for (const PublishedRun& run : runs) {
      const Hardware hardware = hardware_of(run, cluster);
      TRIREME_TRY(plan, plan_run(run, hardware));
      const StepTimes time = slowest_stage(plan, hardware);
      reproduction.table.rows.push_back({.row = run.row,
                                         .part = run.part,
                                         .measured = run.step_s,
                                         .predicted = time.step,
                                         .constant = constant_step_s(run, flops),
                                         .roofline = roofline_step_s(run, hardware),
                                         .time = time});
      TRIREME_TRY_DONE(add_memory(run, plan, reproduction.memory));
    }
  }
  return Done{};
}

}  // namespace trireme
