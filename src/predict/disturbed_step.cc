#include "predict/disturbed_step.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "compile/grad_sums_price.h"
#include "compile/stage_cost.h"
#include "predict/price_schedule.h"

namespace trireme {
namespace {

// Seconds of the kernels of every stage, sums of gradients included, for one micro-batch.
std::vector<StageTimes> kernel_times(const RunPlan& plan, const PlanPrices& prices,
                                     const Hardware& hardware) {
  const std::vector<double> sums_s = price_grad_sums(plan, plan.stages, hardware);
  std::vector<StageTimes> stages;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const UnitPrices& of_place = prices.at(plan.mesh, plan.place_of(int(stage)));
    stages.push_back(stage_times(of_place.of(plan.stages[stage])));
    stages.back().w_s += sums_s[stage];
  }
  return stages;
}

DeviceTimes device_times(const RunPlan& plan, const Hardware& hardware) {
  DeviceTimes times;
  for (int position = 0; position < plan.num_ranks(); ++position) {
    times.device_of.push_back(hardware.device_of(position));
  }
  for (int device = 0; device < hardware.num_devices(); ++device) {
    const Hardware own = hardware.all_of_device(device);
    times.compute.push_back(kernel_times(plan, price_places(plan, own), own));
    times.update.emplace_back();
    for (const RankPlan& rank : plan.pipeline) {
      times.update.back().push_back(predict_update(plan, rank, own) /
                                    predict_update(plan, rank, hardware));
    }
  }
  return times;
}

}  // namespace

double PricedPlan::step_s() const {
  double step_s = 0.0;
  for (const StepTimes& stage : stages) step_s = std::max(step_s, stage.step);
  return step_s;
}

namespace {

Result<PricedPlan> price_any_plan(const RunPlan& plan, const Hardware& hardware) {
  CollectiveBytes collective_bytes(comm_cost(plan), hardware.nodes());
  const PlanPrices prices = price_places(plan, hardware);
  const PlanPrices hiding =
      hardware.is_mixed() ? price_places(plan, hardware, OfDevices::Slowest) : prices;
  PricedSchedule priced = price_schedule(plan, prices, hardware, collective_bytes);
  if (!priced.simulation.ok()) return priced.simulation.error();
  PricedPlan result{.plan = plan,
                    .costs = priced.costs,
                    .compute = kernel_times(plan, prices, hardware),
                    .stages = predict_stages(plan, hiding, priced, hardware, collective_bytes),
                    .makespan_s = priced.simulation->makespan_s};
  if (hardware.is_mixed()) result.devices = device_times(plan, hardware);
  return result;
}

}  // namespace

Result<PricedPlan> price_plan(const RunPlan& plan, const Hardware& hardware) {
  if (plan.is_asynchronous()) {
    return usage(
        "a step of asynchronous workers has no slowest rank, because they do not wait for each "
        "other; set parallel.staleness = 0 to disturb ranks");
  }
  return price_any_plan(plan, hardware);
}

std::vector<StepTimes> predict_mixed_ranks(const RunPlan& plan, const Hardware& hardware,
                                           std::vector<int>* kinds) {
  const Result<PricedPlan> priced = price_any_plan(plan, hardware);
  if (!priced.ok()) return {};
  ExtraTimes extra(plan, priced->compute, {}, priced->devices);
  const DisturbedStep step(*priced, {}, extra);
  std::vector<StepTimes> times;
  for (int position = 0; position < plan.num_ranks(); ++position) {
    times.push_back(step.times(position));
    if (kinds != nullptr) kinds->push_back(extra.kind_of(extra.pipelines().of(position)));
  }
  return times;
}

DisturbedStep::DisturbedStep(const PricedPlan& priced, const std::vector<SlowedRank>& slow,
                             ExtraTimes& extra)
    : priced_(priced),
      extra_(extra),
      factors_(size_t(priced.plan.num_ranks()), 1.0),
      has_slow_rank_(size_t(extra.pipelines().count())),
      update_extra_s_(factors_.size()),
      own_extra_s_(factors_.size()),
      ranks_(factors_.size()) {
  for (const SlowedRank& rank : slow) {
    factors_[size_t(rank.position)] = rank.factor;
    has_slow_rank_[size_t(pipelines().of(rank.position))] = true;
  }
  std::map<int, Simulation> alike;  // pipelines in which nothing is disturbed, by their kinds
  for (int pipeline = 0; pipeline < pipelines().count(); ++pipeline) {
    if (has_slow_rank_[size_t(pipeline)] || extra_.is_jittered()) {
      const PipelineExtra own = extra_of(pipeline);
      spend(pipeline, own, simulate_pipeline(own));
      continue;
    }
    const PipelineExtra& usual = extra_.usual(pipeline);
    const auto [simulated, is_new] = alike.try_emplace(extra_.kind_of(pipeline));
    if (is_new) simulated->second = simulate_pipeline(usual);
    spend(pipeline, usual, simulated->second);
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
      own_extra_s_[position] = extra[pp].own_s[i];
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

StepTimes DisturbedStep::times(int position) const {
  StepTimes time = priced_.stages[size_t(coords_of(priced_.plan.mesh, position).pp)];
  const double update_s = update_extra_s_[size_t(position)];
  const double own_s = own_extra_s_[size_t(position)];
  const double later_s = longest_s_ - priced_.makespan_s;
  time.optimizer += update_s;
  time.compute += own_s + update_s;
  time.step = time.step + later_s + update_s;
  // Computing longer may also hide messages that were waited for.
  time.bubble += later_s - own_s;
  if (time.bubble >= 0.0) return time;
  for (size_t axis = 0; axis < kTrafficAxes.size(); ++axis) {
    if (kTrafficAxes[axis] == "pp") time.exposed[axis] += time.bubble;
  }
  time.exposed_comm += std::exchange(time.bubble, 0.0);
  return time;
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
