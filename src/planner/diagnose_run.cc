#include "planner/diagnose_run.h"

#include <fmt/format.h>

#include "planner/make_plan.h"

namespace trireme {
namespace {

// What the plan has taken from the data and from defaults is set, so that other layouts of this
// configuration train the same.
RunConfig planned_config(const RunPlan& plan) {
  RunConfig config = plan.config;
  config.model.vocab_size = plan.model.vocab_size;
  config.batch.global_sequences = plan.global_sequences;
  config.batch.global_tokens = 0;
  return config;
}

std::vector<StepFinding> diagnose_shares(const RunPlan& plan, const HostFacts& host,
                                         const Hardware& hardware, Symptoms symptoms,
                                         RemedyPrices prices) {
  symptoms.num_microbatches = plan.num_microbatches;
  symptoms.ranks_per_node = hardware.nodes().least_size(plan.num_ranks());
  prices.step_s = predicted_step_s(plan, hardware);
  // Nobody reads why a plan is refused, which takes longer than the plan itself.
  prices.with = [&](const RunConfig& other) -> std::optional<double> {
    if (other.parallel.staleness > 0) {
      const Result<RunPlan> planned = make_plan(other, host);
      return planned.ok() ? std::optional(predicted_step_s(*planned, hardware)) : std::nullopt;
    }
    const Result<SizedPlan> sized = make_sized_plan(other, host);
    if (!sized.ok() || !sized->fits()) return std::nullopt;
    return predicted_step_s(sized->plan, hardware);
  };
  return diagnose(symptoms, prices);
}

}  // namespace

std::vector<StepFinding> diagnose_plan(const RunPlan& plan, const HostFacts& host,
                                       const Hardware& hardware) {
  std::vector<RankStep> stages;
  for (const StepTimes& time : predict_stages(plan, hardware)) {
    stages.push_back({int(stages.size()), time});
  }
  const RunConfig config = planned_config(plan);
  return diagnose_shares(plan, host, hardware, {.config = config, .shares = shares_of(stages)}, {});
}

std::vector<StepFinding> diagnose_disturbed(const WhatIf& what_if) {
  std::vector<StepFinding> findings;
  for (const Cause& cause : what_if.causes) {
    const double share = (cause.alone_s - what_if.undisturbed_s) / what_if.step_s();
    if (share < kLeastShare) continue;
    findings.push_back({.kind = cause.is_of_links ? FindingKind::Sync : FindingKind::Straggler,
                        .share = share,
                        .sentence = fmt::format("{}, and {:.1f} % of the step is waiting for this.",
                                                cause.what, 100.0 * share)});
    offer(cause.remedy, 1.0 - cause.without_s / what_if.step_s(), findings.back());
  }
  return findings;
}

std::vector<StepFinding> diagnose_run(const RunPlan& plan, const HostFacts& host,
                                      const Hardware& hardware,
                                      std::span<const MeasuredStep> measured) {
  std::vector<RankStep> ranks;
  for (const MeasuredStep& rank : measured) {
    ranks.push_back({coords_of(plan.mesh, rank.position).pp, rank.time});
  }
  const RunConfig config = planned_config(plan);
  RemedyPrices prices;
  prices.with_slow_rank = [&](int rank, double factor) -> std::optional<double> {
    const int position = measured[size_t(rank)].position;
    const Result<WhatIf> slowed = what_if(plan, hardware, {.ranks = {{position, factor}}});
    if (!slowed.ok()) return std::nullopt;
    return slowed->step_s();
  };
  return diagnose_shares(plan, host, hardware, {.config = config, .shares = shares_of(ranks)},
                         prices);
}

}  // namespace trireme
