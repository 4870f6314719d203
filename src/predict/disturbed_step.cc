#include "predict/disturbed_step.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "compile/stage_cost.h"
#include "predict/price_schedule.h"

namespace trireme {
namespace {

// Neighbours along dp whose ranks take every action together.
int dp_together(const RunPlan& plan) {
  const ZeroShape& zero = plan.pipeline.front().zero;
  const int gathering = zero.shards_params() ? zero.degree : 1;
  return std::lcm(plan.mesh.ep_dp(), gathering);
}

}  // namespace

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
  CollectiveBytes collective_bytes;
  PricedSchedule priced = price_schedule(plan, hardware, collective_bytes);
  if (!priced.simulation.ok()) return priced.simulation.error();
  PricedPlan result{.plan = plan,
                    .costs = priced.costs,
                    .compute = {},
                    .stages = predict_stages(plan, hardware, priced, collective_bytes),
                    .makespan_s = priced.simulation->makespan_s};
  const UnitPrices prices = price_units(plan, hardware);
  for (const StageSpec& stage : plan.stages) {
    result.compute.push_back(stage_times(prices.of(stage)));
  }
  return result;
}

DisturbedStep::DisturbedStep(const PricedPlan& priced, const std::vector<SlowRank>& slow,
                             const Jitter& jitter)
    : priced_(priced),
      slow_(size_t(priced.plan.num_ranks()), 1.0),
      jitter_(jitter),
      dp_together_(dp_together(priced.plan)),
      ranks_(slow_.size()) {
  const int num_pipelines = priced.plan.mesh.dp / dp_together_;
  std::vector<bool> is_disturbed(size_t(num_pipelines), jitter.sigma > 0.0);
  for (const SlowRank& rank : slow) {
    slow_[size_t(rank.position)] = rank.factor;
    is_disturbed[size_t(pipeline_of(rank.position))] = true;
  }
  std::optional<std::pair<Extra, Simulation>> undisturbed;
  for (int pipeline = 0; pipeline < num_pipelines; ++pipeline) {
    if (is_disturbed[size_t(pipeline)] || !undisturbed) {
      const Extra extra = extra_of(pipeline);
      const Simulation simulation = simulate_pipeline(extra);
      spend(pipeline, extra, simulation);
      if (!is_disturbed[size_t(pipeline)]) undisturbed = {extra, simulation};
    } else {
      spend(pipeline, undisturbed->first, undisturbed->second);
    }
  }
  end_step();
}

int DisturbedStep::pipeline_of(int position) const {
  return coords_of(priced_.plan.mesh, position).dp / dp_together_;
}

bool DisturbedStep::are_together(int position, int other) const {
  const Mesh& mesh = priced_.plan.mesh;
  return pipeline_of(position) == pipeline_of(other) &&
         coords_of(mesh, position).pp == coords_of(mesh, other).pp;
}

double DisturbedStep::factor_of(int position, size_t action) const {
  return slow_[size_t(position)] * jitter_factor(jitter_, position, action);
}

// Seconds of the kernels of an action of the schedule.
double DisturbedStep::compute_s(int pp, const Action& action) const {
  const auto times = [&](int chunk) -> const StageTimes& {
    return priced_.compute[size_t(stage_of(priced_.plan.schedule, pp, chunk))];
  };
  switch (action.kind) {
    case ActionKind::F:
      return times(action.chunk).f_s;
    case ActionKind::B:
      return times(action.chunk).b_s;
    case ActionKind::W:
      return times(action.chunk).w_s;
    case ActionKind::BW:
      return times(action.chunk).b_s + times(action.chunk).w_s;
    case ActionKind::FB:
      return times(action.chunk).f_s + times(action.chunk_b).b_s + times(action.chunk_b).w_s;
    default:
      return 0.0;
  }
}

// Step is the action behind those of the schedule.
double DisturbedStep::step_extra_s(int position) const {
  const size_t pp = size_t(coords_of(priced_.plan.mesh, position).pp);
  const size_t step = priced_.plan.schedule.programs[pp].size();
  return (factor_of(position, step) - 1.0) * priced_.stages[pp].optimizer;
}

// The ranks of a stage that take every action together, in rising order.
std::vector<int> DisturbedStep::together(int pipeline, int pp) const {
  const Mesh& mesh = priced_.plan.mesh;
  std::vector<int> positions;
  for (int i = 0; i < dp_together_; ++i) {
    const int first = position_of(mesh, {.pp = pp, .dp = pipeline * dp_together_ + i});
    for (int j = 0; j < mesh.tp * mesh.cp; ++j) positions.push_back(first + j);
  }
  return positions;
}

DisturbedStep::Extra DisturbedStep::extra_of(int pipeline) const {
  const Schedule& schedule = priced_.plan.schedule;
  Extra extra{.of_action = std::vector<std::vector<double>>(schedule.programs.size()),
              .waited = std::vector<std::vector<double>>(schedule.programs.size())};
  for (size_t pp = 0; pp < schedule.programs.size(); ++pp) {
    const Program& program = schedule.programs[pp];
    const std::vector<int> positions = together(pipeline, int(pp));
    extra.of_action[pp].resize(program.size());
    extra.waited[pp].resize(positions.size());
    std::vector<double> factors(positions.size());
    for (size_t i = 0; i < program.size(); ++i) {
      const double seconds = compute_s(int(pp), program[i]);
      if (seconds == 0.0) continue;
      for (size_t p = 0; p < positions.size(); ++p) factors[p] = factor_of(positions[p], i);
      const double slowest = *std::max_element(factors.begin(), factors.end());
      extra.of_action[pp][i] = (slowest - 1.0) * seconds;
      for (size_t p = 0; p < positions.size(); ++p) {
        extra.waited[pp][p] += (slowest - factors[p]) * seconds;
      }
    }
  }
  return extra;
}

Simulation DisturbedStep::simulate_pipeline(const Extra& extra) const {
  Costs costs = priced_.costs;
  costs.extra_s = [&](int pp, size_t action) { return extra.of_action[size_t(pp)][action]; };
  // price_plan has simulated this schedule, and whether it hangs does not depend on times.
  return simulate(priced_.plan.schedule, costs).value();
}

void DisturbedStep::spend(int pipeline, const Extra& extra, const Simulation& simulation) {
  makespan_s_.push_back(simulation.makespan_s);
  for (int pp = 0; pp < priced_.plan.mesh.pp; ++pp) {
    const double busy_s = simulation.ranks[size_t(pp)].busy_s;
    const std::vector<int> positions = together(pipeline, pp);
    for (size_t p = 0; p < positions.size(); ++p) {
      RankSpent& spent = ranks_[size_t(positions[p])];
      spent.in_layers_s = extra.waited[size_t(pp)][p];
      spent.busy_s = busy_s - spent.in_layers_s;
      spent.for_stages_s = simulation.makespan_s - busy_s;
    }
  }
}

void DisturbedStep::end_step() {
  longest_s_ = *std::max_element(makespan_s_.begin(), makespan_s_.end());
  const double later_s = longest_s_ - priced_.makespan_s;
  const int num_ranks = priced_.plan.num_ranks();
  for (int position = 0; position < num_ranks; ++position) {
    const StepTimes& stage = priced_.stages[size_t(coords_of(priced_.plan.mesh, position).pp)];
    const double extra_s = step_extra_s(position);
    ranks_[size_t(position)].tail_s = stage.step - priced_.makespan_s + extra_s;
    step_s_ = std::max(step_s_, stage.step + later_s + extra_s);
  }
  by_busy_.resize(size_t(num_ranks));
  std::iota(by_busy_.begin(), by_busy_.end(), 0);
  for (const int position : by_busy_) {
    RankSpent& spent = ranks_[size_t(position)];
    spent.at_end_s = step_s_ - makespan_s_[size_t(pipeline_of(position))] - spent.tail_s;
  }
  std::sort(by_busy_.begin(), by_busy_.end(), [&](int a, int b) {
    return std::tuple(ranks_[size_t(a)].busy_s, -a) < std::tuple(ranks_[size_t(b)].busy_s, -b);
  });
}

std::vector<Span> DisturbedStep::timeline(int position) const {
  const size_t pp = size_t(coords_of(priced_.plan.mesh, position).pp);
  const Simulation simulation = simulate_pipeline(extra_of(pipeline_of(position)));
  std::vector<Span> spans = simulation.timeline[pp];
  const double update_s = priced_.stages[pp].optimizer + step_extra_s(position);
  spans.push_back({longest_s_, longest_s_ + update_s});
  return spans;
}

}  // namespace trireme
