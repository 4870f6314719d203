#include "predict/extra_times.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace trireme {
namespace {

int dp_together(const RunPlan& plan) {
  const ZeroShape& zero = plan.pipeline.front().zero;
  return std::lcm(plan.mesh.ep_dp(), zero.shards_params() ? zero.degree : 1);
}

}  // namespace

Pipelines::Pipelines(const RunPlan& plan) : mesh_(plan.mesh), dp_together_(dp_together(plan)) {}

std::vector<int> Pipelines::together(int pipeline, int pp) const {
  std::vector<int> positions;
  for (int i = 0; i < dp_together_; ++i) {
    const int dp = pipeline * dp_together_ + i;
    for (int cp = 0; cp < mesh_.cp; ++cp) {
      for (int tp = 0; tp < mesh_.tp; ++tp) {
        positions.push_back(position_of(mesh_, {.tp = tp, .cp = cp, .pp = pp, .dp = dp}));
      }
    }
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

ExtraTimes::ExtraTimes(const RunPlan& plan, std::vector<StageTimes> compute, const Jitter& jitter)
    : plan_(plan), pipelines_(plan), jitter_(jitter) {
  for (size_t pp = 0; pp < plan.schedule.programs.size(); ++pp) {
    compute_s_.emplace_back();
    for (const Action& action : plan.schedule.programs[pp]) {
      const auto times = [&](int chunk) -> const StageTimes& {
        return compute[size_t(stage_of(plan.schedule, int(pp), chunk))];
      };
      compute_s_.back().push_back(compute_s(action, times).value_or(0.0));
    }
  }
}

const PipelineExtra& ExtraTimes::usual(int pipeline) {
  const auto [entry, is_new] = usual_.try_emplace(is_jittered() ? pipeline : 0);
  if (is_new) entry->second = slowed(pipeline, {});
  return entry->second;
}

PipelineExtra ExtraTimes::slowed(int pipeline, std::span<const double> factors) const {
  PipelineExtra extra;
  for (int pp = 0; pp < plan_.mesh.pp; ++pp) {
    extra.push_back(extra_of(pipelines_.together(pipeline, pp), pp, factors));
  }
  return extra;
}

// Step is the action behind those of the schedule.
ExtraOfStage ExtraTimes::extra_of(const std::vector<int>& positions, int pp,
                                  std::span<const double> factors) const {
  const std::vector<double>& compute_s = compute_s_[size_t(pp)];
  std::vector<double> varied(compute_s.size() + 1), slowest(compute_s.size());
  ExtraOfStage extra;
  for (const int position : positions) {
    fill_jitter(jitter_, position, varied);
    const double factor = factors.empty() ? 1.0 : factors[size_t(position)];
    double own_s = 0.0;
    for (size_t i = 0; i < compute_s.size(); ++i) {
      const double times = factor * varied[i];
      slowest[i] = std::max(slowest[i], times);
      own_s += times * compute_s[i];
    }
    extra.waited_s.push_back(-own_s);
    extra.update.push_back(factor * varied.back());
  }
  double slowest_s = 0.0;
  for (size_t i = 0; i < compute_s.size(); ++i) {
    slowest_s += slowest[i] * compute_s[i];
    extra.actions_s.push_back((slowest[i] - 1.0) * compute_s[i]);
  }
  for (double& waited_s : extra.waited_s) waited_s += slowest_s;
  return extra;
}

}  // namespace trireme
