#include "reproduce/price_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/make_plan.h"
#include "reproduce/baselines.h"

namespace trireme {

Result<StepTimes> price_run(const PublishedRun& run, const Hardware& cluster) {
  Hardware hardware = cluster;
  hardware.practice = run.practice;
  const Result<RunPlan> plan = make_plan(config_of(run), {.hardware = hardware});
  if (!plan.ok()) {
    return Error{plan.error().kind,
                 fmt::format("{} cannot be planned: {}", run.row, plan.error().message)};
  }
  const std::vector<StepTimes> stages = predict_stages(*plan, hardware);
  return *std::max_element(stages.begin(), stages.end(),
                           [](const auto& a, const auto& b) { return a.step < b.step; });
}

Status price_runs(std::initializer_list<RunsOfCluster> clusters, Reproduction& reproduction) {
  reproduction.table.quantity = "step time";
  reproduction.table.unit = "s";
  std::vector<PublishedRun> all;
  for (const auto& [runs, hardware] : clusters) all.insert(all.end(), runs.begin(), runs.end());
  const double flops = best_constant_flops(all);
  reproduction.constant_flops = flops;
  for (const auto& [runs, hardware] : clusters) {
    for (const PublishedRun& run : runs) {
      TRIREME_TRY(time, price_run(run, hardware));
      reproduction.table.rows.push_back({.row = run.row,
                                         .part = run.part,
                                         .measured = run.step_s,
                                         .predicted = time.step,
                                         .constant = constant_step_s(run, flops),
                                         .roofline = roofline_step_s(run, hardware),
                                         .time = time});
    }
  }
  return Done{};
}

}  // namespace trireme
