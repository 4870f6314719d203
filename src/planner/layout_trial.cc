#include "planner/layout_trial.h"

#include <algorithm>
#include <utility>

#include "compile/step_price.h"
#include "planner/recompute_to_fit.h"
#include "predict/price_schedule.h"

namespace trireme {
namespace {

StepTimes slowest_of(const std::vector<StepTimes>& stages) {
  StepTimes slowest;
  for (const StepTimes& stage : stages) {
    if (stage.step > slowest.step) slowest = stage;
  }
  return slowest;
}

// A compiled plan does not depend on the order, except for the positions of its ranks.
void set_order(RunPlan& plan, const MeshOrder& order) {
  plan.mesh.order = order;
  plan.config.parallel.order = to_string(order);
  for (RankPlan& rank : plan.pipeline) rank.position = position_of(plan.mesh, rank.coords);
}

}  // namespace

LayoutTrial::LayoutTrial(const SearchTask& task, LayoutBounds& bounds, CandidateQueue& queue,
                         KeptLayouts& kept)
    : task_(task),
      bounds_(bounds),
      queue_(queue),
      kept_(kept),
      collectives_(comm_cost(task.started), task.hardware.nodes()),
      prices_(task.hardware) {}

void LayoutTrial::run(const Candidate& candidate) {
  RunPlan plan;
  std::vector<OrderedSchedule> schedules;
  const std::vector<MeshOrder>& orders = queue_.orders_of(candidate);
  for (size_t number = 0; number < orders.size(); ++number) {
    LayoutChoice layout = candidate.layout;
    layout.mesh.order = orders[number];
    if (orders.size() > 1 && is_slow_order(candidate, layout)) continue;
    const auto known = simulated_.find(simulated_key(layout, candidate.again));
    if (known != simulated_.end() && !fits(candidate, known->second)) return;
    if (known != simulated_.end() && is_beaten(layout, known->second)) continue;
    ++num_simulated_;
    if (plan.pipeline.empty() && !outline(candidate, plan)) return;
    set_order(plan, orders[number]);
    PricedSchedule schedule = simulate(plan, layout, candidate.again);
    if (!schedule.simulation.ok())
      return queue_.refuse_schedule(candidate, schedule.simulation.error());
    const Simulated simulated = summary_of(*schedule.simulation);
    if (!fits(candidate, simulated)) return;
    if (is_beaten(layout, simulated)) continue;
    const bool is_fit = layout.recompute == Recompute::Fit;
    if (is_fit && is_beaten_by_values(candidate, layout, plan, simulated)) continue;
    schedules.push_back({orders[number], int(number), std::move(schedule)});
  }
  if (!schedules.empty()) try_transfers(candidate, plan, schedules);
}

// True if the bound of a layout in its order is above what is kept.
bool LayoutTrial::is_slow_order(const Candidate& candidate, const LayoutChoice& layout) {
  bounds_.take_any_of({}, {layout.mesh.order});
  const double least_s = bounds_.step_s(layout, candidate.again).value();
  return kept_.is_beaten(least_s, candidate.least_bytes);
}

// Outlines the plan of a layout, or refuses the layout and returns false.
bool LayoutTrial::outline(const Candidate& candidate, RunPlan& plan) {
  plan = task_.plan_of(candidate.layout);
  const Status outlined = outline_pipeline(plan, parts_);
  if (outlined.ok()) return true;
  if (!parts_.schedule(plan).ok()) {
    queue_.refuse_schedule(candidate, outlined.error());
  } else {
    // Every other rule has passed.
    queue_.refuse(candidate, {"run.reproducible", outlined.error().message});
  }
  return false;
}

// The simulated schedule is the same for all buckets. If one of them needs too much memory, the
// next choice of memory.offload may have room for it.
void LayoutTrial::try_transfers(Candidate candidate, RunPlan& plan,
                                const std::vector<OrderedSchedule>& schedules) {
  std::optional<NeededBytes> too_much;
  bool is_possible = false;
  LayoutWay way{.offload = candidate.offload};
  for (const LayoutTransfers& transfers :
       task_.transfers.differing_for(candidate.layout, bounds_)) {
    candidate.layout.transfers = transfers;
    plan.config.parallel.bucket_bytes = transfers.bucket_bytes;
    plan.config.parallel.prefetch = transfers.prefetch;
    const bool is_fit = candidate.layout.recompute == Recompute::Fit;
    const std::optional<NeededBytes> needed = is_fit
                                                  ? try_to_fit(candidate, way, plan, schedules)
                                                  : try_as_it_is(candidate, way, plan, schedules);
    if (needed && !too_much) too_much = needed;
    is_possible = is_possible || !needed;
    ++way.transfers;
  }
  if (too_much) queue_.refuse_memory(candidate, *too_much, is_possible ? 0 : 1);
}

// This function and the next offer what fits and is not beaten, and return what is needed if it is
// too much. The memory of a plan is the same in every order.
std::optional<NeededBytes> LayoutTrial::try_as_it_is(
    const Candidate& candidate, LayoutWay way, RunPlan& plan,
    const std::vector<OrderedSchedule>& schedules) {
  const PlanPrices& prices = prices_.slowest_of(plan);
  std::optional<NeededBytes> needed;
  int num_compiled = 0;
  for (const OrderedSchedule& ordered : schedules) {
    set_order(plan, ordered.order);
    StepTimes time;
    int pp = 0;
    while (pp < plan.mesh.pp && !kept_.is_beaten(time.step, candidate.least_bytes)) {
      if (pp == num_compiled) compile_outlined_rank(plan, num_compiled++, parts_);
      const StepTimes of_rank = predict_stage(plan, plan.pipeline[size_t(pp++)], prices,
                                              ordered.schedule, task_.hardware, collectives_);
      if (of_rank.step > time.step) time = of_rank;
    }
    if (kept_.is_beaten(time.step, candidate.least_bytes)) continue;
    if (task_.hardware.is_mixed()) {
      time = slowest_of(predict_stages(plan, task_.hardware));
      if (kept_.is_beaten(time.step, candidate.least_bytes)) continue;
    }
    if (!needed) needed = planned_bytes(plan);
    if (!task_.limit.allows(*needed)) return needed;
    way.order = ordered.number;
    offer(candidate, way, plan, time);
  }
  return std::nullopt;
}

// With memory.recompute = "fit", compiles the plan with the cheapest values with which it fits.
// Programs and shards do not depend on these values, so the plan is priced before it is compiled
// with them.
std::optional<NeededBytes> LayoutTrial::try_to_fit(const Candidate& candidate, LayoutWay way,
                                                   RunPlan& plan,
                                                   const std::vector<OrderedSchedule>& schedules) {
  plan.shape.again = 0;
  compile_outlined(plan, parts_);
  const bool recomputes = recomputes_to_fit(plan);
  if (!recomputes && !task_.limit.allows(needed_bytes(plan))) return needed_bytes(plan);
  for (RankPlan& rank : plan.pipeline) rank.shape.again = plan.shape.again;
  bool is_compiled = !recomputes;
  for (const OrderedSchedule& ordered : schedules) {
    set_order(plan, ordered.order);
    LayoutChoice layout = candidate.layout;
    layout.mesh.order = ordered.order;
    const PricedSchedule schedule = price(plan, layout);
    // The schedule was simulated with other values before.
    TRIREME_CHECK(schedule.simulation.ok(), schedule.simulation.error().message);
    const StepTimes time =
        slowest_of(task_.hardware.is_mixed() ? predict_stages(plan, task_.hardware)
                                             : predict_stages(plan, prices_.of(plan), schedule,
                                                              task_.hardware, collectives_));
    if (kept_.is_beaten(time.step, candidate.least_bytes)) continue;
    if (!std::exchange(is_compiled, true)) compile_outlined(plan, parts_);
    way.order = ordered.number;
    offer(candidate, way, plan, time);
  }
  return std::nullopt;
}

// Plans the memory of a compiled pipeline, and of all classes if the pipeline itself fits.
NeededBytes LayoutTrial::planned_bytes(RunPlan& plan) {
  plan_pipeline_memory(plan);
  NeededBytes needed;
  for (const RankPlan& rank : plan.pipeline) {
    needed.of_rank = std::max(needed.of_rank, rank.memory.arena_bytes);
    needed.of_all += rank.memory.arena_bytes;
  }
  if (!task_.limit.allows(needed)) return needed;
  plan_class_memory(plan, parts_);
  return needed_bytes(plan);
}

PricedSchedule LayoutTrial::price(const RunPlan& plan, const LayoutChoice& layout) {
  return price_schedule(plan, prices_.of(plan), task_.hardware, collectives_,
                        bounds_.layer_saved_bytes(layout));
}

// Simulates an outlined plan. Its ranks do not know `again`, so no transfer is repeated, and the
// time is a lower bound for all sets of values that cost as much.
PricedSchedule LayoutTrial::simulate(RunPlan& plan, const LayoutChoice& layout, uint64_t again) {
  plan.shape.again = again;
  const SimulatedKey key = simulated_key(layout, again);
  if (const auto known = schedules_.find(key); known != schedules_.end()) return known->second;
  PricedSchedule schedule = price(plan, layout);
  if (!schedule.simulation.ok()) return schedule;
  simulated_[key] = summary_of(*schedule.simulation);
  schedule.simulation->timeline = {};
  schedule.costs = {};
  if (schedules_.size() == kMostSchedules) schedules_.clear();
  return schedules_.emplace(key, std::move(schedule)).first->second;
}

// More micro-batches live in a simulation than in the bound, so more values may have to be
// computed again than the candidate names.
bool LayoutTrial::is_beaten_by_values(const Candidate& candidate, const LayoutChoice& layout,
                                      RunPlan& plan, const Simulated& simulated) {
  const uint64_t again = bounds_.cheapest_again(layout, task_.limit.bytes(), simulated.saved_bytes);
  if (again == candidate.again) return false;
  const PricedSchedule closer = simulate(plan, layout, again);
  return closer.simulation.ok() && is_beaten(layout, summary_of(*closer.simulation));
}

// With memory.recompute = "fit", gives a compiled plan that needs too much the cheapest values
// with which it fits. Returns true if there are such values.
bool LayoutTrial::recomputes_to_fit(RunPlan& plan) {
  if (plan.shape.recompute != Recompute::Fit || task_.limit.allows(needed_bytes(plan)))
    return false;
  const auto again = bounds_.recompute_choice().cheapest(
      plan, [&](const NeededBytes& needed) { return task_.limit.allows(needed); });
  plan.shape.again = again.value_or(0);
  return again.has_value();
}

// False, and the candidate is refused, if its simulated schedule needs too much memory. That
// does not depend on the order.
bool LayoutTrial::fits(const Candidate& candidate, const Simulated& simulated) {
  const NeededBytes least = bounds_.bytes(candidate.layout, simulated.saved_bytes).value();
  if (task_.limit.allows(least)) return true;
  queue_.refuse_memory(candidate, least);
  return false;
}

// True if the layout is slower, in its order, than what is kept.
bool LayoutTrial::is_beaten(const LayoutChoice& layout, const Simulated& simulated) {
  const NeededBytes least = bounds_.bytes(layout, simulated.saved_bytes).value();
  const double after_s = bounds_.after_schedule_s(layout).value();
  return kept_.is_beaten(simulated.makespan_s * kRounding + after_s, least.of_rank);
}

// Keeps a layout that fits, unless it is beaten.
void LayoutTrial::offer(const Candidate& candidate, const LayoutWay& way, const RunPlan& plan,
                        const StepTimes& time) {
  PricedLayout priced;
  priced.time = time;
  priced.arena_bytes = plan.largest().memory.arena_bytes;
  if (kept_.is_beaten(priced.time.step, priced.arena_bytes)) return;
  priced.layout = candidate.layout;
  priced.layout.mesh.order = plan.mesh.order;
  priced.num_microbatches = plan.num_microbatches;
  priced.peak_bytes = plan.greatest_peak_bytes();
  priced.mfu = double(plan.tokens_per_step()) * plan.flops_per_token.total() / priced.time.step /
               (peak_flops(plan, task_.hardware) * plan.num_ranks());
  kept_.keep(priced, candidate.index, way);
}

}  // namespace trireme
