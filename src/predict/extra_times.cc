#include "predict/extra_times.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace trireme {
namespace {

int dp_together(const RunPlan& plan) {
  // All lanes of a rank run one after the other, and other ranks have some of them.
  if (plan.mesh.is_uneven()) return plan.mesh.dp;
  const ZeroShape& zero = plan.pipeline.front().zero;
  return std::lcm(plan.mesh.ep_dp(), zero.shards_params() ? zero.degree : 1);
}

// [pp][action] An action of the schedule is one of every lane of a rank.
std::vector<std::vector<double>> seconds_of_actions(const RunPlan& plan,
                                                    const std::vector<StageTimes>& compute) {
  const Schedule& schedule = plan.schedule;
  std::vector<std::vector<double>> seconds;
  for (size_t pp = 0; pp < schedule.programs.size(); ++pp) {
    seconds.emplace_back();
    for (const Action& action : schedule.programs[pp]) {
      const auto times = [&](int chunk) -> const StageTimes& {
        return compute[size_t(stage_of(schedule, int(pp), chunk))];
      };
      seconds.back().push_back(plan.mesh.lanes_at(int(pp)) *
                               compute_s(action, times).value_or(0.0));
    }
  }
  return seconds;
}

}  // namespace

Pipelines::Pipelines(const RunPlan& plan) : mesh_(plan.mesh), dp_together_(dp_together(plan)) {}

std::vector<int> Pipelines::together(int pipeline, int pp) const {
  std::vector<int> positions;
  const int lanes = mesh_.lanes_at(pp);
  for (int i = 0; i < dp_together_ / lanes; ++i) {
    const int dp = pipeline * (dp_together_ / lanes) + i;
    for (int cp = 0; cp < mesh_.cp; ++cp) {
      for (int tp = 0; tp < mesh_.tp_at(pp); ++tp) {
        positions.push_back(position_of(mesh_, {.tp = tp, .cp = cp, .pp = pp, .dp = dp}));
      }
    }
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

ExtraTimes::ExtraTimes(const RunPlan& plan, std::vector<StageTimes> compute, const Jitter& jitter,
                       const DeviceTimes& devices)
    : plan_(plan), pipelines_(plan), jitter_(jitter), device_of_(devices.device_of) {
  compute_s_ = seconds_of_actions(plan, compute);
  for (size_t device = 0; device < devices.compute.size(); ++device) {
    auto factors = seconds_of_actions(plan, devices.compute[device]);
    for (size_t pp = 0; pp < factors.size(); ++pp) {
      for (size_t i = 0; i < factors[pp].size(); ++i) {
        factors[pp][i] = compute_s_[pp][i] > 0.0 ? factors[pp][i] / compute_s_[pp][i] : 1.0;
      }
      factors[pp].push_back(devices.update[device][pp]);
    }
    on_device_.push_back(std::move(factors));
  }
  if (!device_of_.empty()) number_kinds();
}

void ExtraTimes::number_kinds() {
  std::map<std::vector<int>, int> numbers;
  for (int pipeline = 0; pipeline < pipelines_.count(); ++pipeline) {
    std::vector<int> devices;
    for (int pp = 0; pp < plan_.mesh.pp; ++pp) {
      for (const int position : pipelines_.together(pipeline, pp)) {
        devices.push_back(device_of_[size_t(position)]);
      }
    }
    kinds_.push_back(numbers.try_emplace(std::move(devices), int(numbers.size())).first->second);
  }
}

const PipelineExtra& ExtraTimes::usual(int pipeline) {
  const auto [entry, is_new] = usual_.try_emplace(is_jittered() ? pipeline : kind_of(pipeline));
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
    if (!device_of_.empty()) {
      const int device = device_of_[size_t(position)];
      const std::vector<double>& of_device = on_device_[size_t(device)][size_t(pp)];
      for (size_t i = 0; i < varied.size(); ++i) varied[i] *= of_device[i];
    }
    double own_s = 0.0, extra_s = 0.0;
    for (size_t i = 0; i < compute_s.size(); ++i) {
      const double times = factor * varied[i];
      slowest[i] = std::max(slowest[i], times);
      own_s += times * compute_s[i];
      extra_s += (times - 1.0) * compute_s[i];
    }
    extra.own_s.push_back(extra_s);
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
