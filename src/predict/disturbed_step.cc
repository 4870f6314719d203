#include "predict/disturbed_step.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "compile/stage_cost.h"
#include "predict/price_schedule.h"

namespace trireme {
double PricedPlan::step_s() const {
  double step_s = 0.0;
  for (const StepTimes& stage : stages) step_s = std::max(step_s, stage.step);
  return step_s;
}

Result<PricedPlan> price_plan(const RunPlan& plan, const Hardware& hardware) {
  if (plan.is_asynchronous()) {
    return usage(
        "a step of asynchronous workers has no slowest rank, because they do not wait for each "
        "other; set parallel.staleness = 0 to disturb ranks");
  }
  CollectiveBytes collective_bytes(comm_cost(plan));
  const UnitPrices prices = price_units(plan, hardware);
  PricedSchedule priced = price_schedule(plan, prices, hardware, collective_bytes);
  if (!priced.simulation.ok()) return priced.simulation.error();
  PricedPlan result{.plan = plan,
                    .costs = priced.costs,
                    .compute = {},
                    .stages = predict_stages(plan, prices, priced, hardware, collective_bytes),
                    .makespan_s = priced.simulation->makespan_s};
  for (const StageSpec& stage : plan.stages) {
    result.compute.push_back(stage_times(prices.of(stage)));
  }
  return result;
}

DisturbedStep::DisturbedStep(const PricedPlan& priced, const std::vector<SlowRank>& slow,
                             ExtraTimes& extra)
    : priced_(priced),
      extra_(extra),
      factors_(size_t(priced.plan.num_ranks()), 1.0),
      has_slow_rank_(size_t(extra.pipelines().count())),
      update_extra_s_(factors_.size()),
      ranks_(factors_.size()) {
  for (const SlowRank& rank : slow) {
    factors_[size_t(rank.position)] = rank.factor;
    has_slow_rank_[size_t(pipelines().of(rank.position))] = true;
  }
  std::optional<Simulation> alike;  // pipelines in which nothing is disturbed
  for (int pipeline = 0; pipeline < pipelines().count(); ++pipeline) {
    if (has_slow_rank_[size_t(pipeline)] || extra_.is_jittered()) {
      const PipelineExtra own = extra_of(pipeline);
      spend(pipeline, own, simulate_pipeline(own));
      continue;
    }
    const PipelineExtra& usual = extra_.usual(pipeline);
    if (!alike) alike = simulate_pipeline(usual);
    spend(pipeline, usual, *alike);
  }
  end_step();
}

PipelineExtra DisturbedStep::extra_of(int pipeline) const {
  return has_slow_rank_[size_t(pipeline)] ? extra_.slowed(pipeline, factors_)
                                          : extra_.usual(pipeline);
}

Simulation DisturbedStep::simulate_pipeline(const PipelineExtra& extra) const {
  Costs costs = priced_.costs;
  costs.extra_s = [&](int pp, size_t action) { return extra[size_t(pp)].actions_s[action]; };
  // price_plan has simulated this schedule, and whether it hangs does not depend on times.
  return simulate(priced_.plan.schedule, costs).value();
}

void DisturbedStep::spend(int pipeline, const PipelineExtra& extra, const Simulation& simulation) {
  makespan_s_.push_back(simulation.makespan_s);
  for (size_t pp = 0; pp < extra.size(); ++pp) {
    const double busy_s = simulation.ranks[pp].busy_s;
    const std::vector<int> positions = pipelines().together(pipeline, int(pp));
    for (size_t i = 0; i < positions.size(); ++i) {
      const size_t position = size_t(positions[i]);
      RankSpent& spent = ranks_[position];
      spent.in_layers_s = extra[pp].waited_s[i];
      spent.busy_s = busy_s - spent.in_layers_s;
      spent.for_stages_s = simulation.makespan_s - busy_s;
      update_extra_s_[position] = (extra[pp].update[i] - 1.0) * priced_.stages[pp].optimizer;
    }
  }
}

void DisturbedStep::end_step() {
  longest_s_ = *std::max_element(makespan_s_.begin(), makespan_s_.end());
  const double later_s = longest_s_ - priced_.makespan_s;
  for (size_t position = 0; position < ranks_.size(); ++position) {
    const size_t pp = size_t(coords_of(priced_.plan.mesh, int(position)).pp);
    const double stage_s = priced_.stages[pp].step, extra_s = update_extra_s_[position];
    ranks_[position].tail_s = stage_s - priced_.makespan_s + extra_s;
    step_s_ = std::max(step_s_, stage_s + later_s + extra_s);
  }
  for (size_t position = 0; position < ranks_.size(); ++position) {
    const size_t pipeline = size_t(pipelines().of(int(position)));
    ranks_[position].at_end_s = step_s_ - makespan_s_[pipeline] - ranks_[position].tail_s;
  }
  by_busy_.resize(ranks_.size());
  std::iota(by_busy_.begin(), by_busy_.end(), 0);
  std::sort(by_busy_.begin(), by_busy_.end(), [&](int a, int b) {
    return std::tuple(ranks_[size_t(a)].busy_s, -a) < std::tuple(ranks_[size_t(b)].busy_s, -b);
  });
}

std::vector<Span> DisturbedStep::timeline(int position) const {
  const size_t pp = size_t(coords_of(priced_.plan.mesh, position).pp);
  const PipelineExtra extra = extra_of(pipelines().of(position));
  std::vector<Span> spans = simulate_pipeline(extra).timeline[pp];
  const double update_s = priced_.stages[pp].optimizer + update_extra_s_[size_t(position)];
  spans.push_back({longest_s_, longest_s_ + update_s});
  return spans;
}

}  // namespace trireme
