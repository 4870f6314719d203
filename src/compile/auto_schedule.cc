#include "compile/auto_schedule.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compile/grad_sums_price.h"
#include "compile/plan_stages.h"
#include "compile/stage_cost.h"
#include "program/generators.h"
#include "program/make_schedule.h"
#include "program/pairs.h"
#include "program/send_recv.h"
#include "sim/search_schedule.h"

namespace trireme {
namespace {

// Uses the mean times over all stages.
TransferOrder order_of(const Costs& costs) {
  TransferOrder order{0, 0, 0, costs.link.latency_s};
  for (const StageTimes& times : costs.stages) {
    order.f += times.f_s / double(costs.stages.size());
    order.b += times.b_s / double(costs.stages.size());
    order.w += times.w_s / double(costs.stages.size());
  }
  if (costs.link.bytes_per_s > 0) order.comm += costs.message_bytes / costs.link.bytes_per_s;
  return order;
}

// The costs of schedules of one shape. They depend on which rank holds which stage, because places
// of the pipeline may have degrees of their own.
struct PlacedCosts {
  Costs in_loop, in_v;

  const Costs& of(StagePlacement placement) const {
    return placement == StagePlacement::V ? in_v : in_loop;
  }
};

Result<Costs> costs_where(StagePlacement placement, const ScheduleShape& shape, RunPlan plan,
                          const PlanPrices& prices, const Hardware& hardware) {
  plan.schedule = empty_schedule("auto", shape, placement);
  TRIREME_TRY(stages, plan_stages(plan, num_stages(plan.schedule)));
  Costs costs = pipeline_costs(plan, prices, stages, hardware);
  const std::vector<double> sums_s = price_grad_sums(plan, stages, hardware);
  for (size_t stage = 0; stage < stages.size(); ++stage) costs.stages[stage].w_s += sums_s[stage];
  price_lanes(plan, costs);
  return costs;
}

// Keeps the fastest schedule offered, priced as it is executed: with separate B and W, and with
// transfers.
class Contest {
 public:
  void offer(const Schedule& bare, const PlacedCosts& placed, double max_live) {
    const Costs& costs = placed.of(bare.placement);
    Schedule apart = bare;
    for (Program& program : apart.programs) program = unpair(program, Pairs::Apart);
    for (const TransferOrder& order : {TransferOrder{}, order_of(costs)}) {
      Schedule schedule = add_send_recv(apart, order);
      const Result<Simulation> simulated = simulate(schedule, costs);
      if (!simulated.ok() || (max_live > 0 && most_alive(*simulated) > max_live)) continue;
      if (best_ && simulated->makespan_s >= best_makespan_s_ * (1 - 1e-12)) continue;
      best_ = std::move(schedule);
      best_makespan_s_ = simulated->makespan_s;
    }
  }
  std::optional<Schedule>& best() { return best_; }

 private:
  static int most_alive(const Simulation& simulated) {
    int most = 0;
    for (const RankSimulation& rank : simulated.ranks) most = std::max(most, rank.peak_live_w);
    return most;
  }

  std::optional<Schedule> best_;
  double best_makespan_s_ = 0;
};

Status offer_all(Contest& contest, const ScheduleShape& shape, const PlacedCosts& costs,
                 double max_live) {
  TRIREME_TRY(found, search_schedule(shape, costs.in_loop, {.max_live = max_live}));
  contest.offer(found, costs, max_live);
  for (const std::string& kind : schedule_kinds()) {
    if (traits_of(kind).param_copies() > 1) continue;
    const Result<Schedule> named = make_schedule(kind, shape);
    if (named.ok()) contest.offer(*named, costs, max_live);
  }
  return Done{};
}

}  // namespace

Result<Schedule> auto_schedule(const RunPlan& plan) {
  const ParallelConfig& parallel = plan.config.parallel;
  const Hardware hardware = plan.hardware.value_or(nominal_hardware());
  const bool may_have_two = parallel.chunks == 0 && plan.model.layers >= 2 * parallel.pp;
  const int fewest = std::max(parallel.chunks, 1);
  const PlanPrices prices = price_places(plan, hardware);
  Contest contest;
  std::optional<Error> refusal;
  for (int chunks = fewest; chunks <= (may_have_two ? 2 : fewest); ++chunks) {
    const ScheduleShape shape{parallel.pp, int(plan.num_microbatches), chunks};
    const auto costs_in = [&](StagePlacement placement) {
      return costs_where(placement, shape, plan, prices, hardware);
    };
    TRIREME_TRY(in_loop, costs_in(StagePlacement::Loop));
    TRIREME_TRY(in_v, costs_in(StagePlacement::V));
    const PlacedCosts costs{std::move(in_loop), std::move(in_v)};
    const Status offered = offer_all(contest, shape, costs, double(plan.max_live) * chunks);
    if (!offered.ok() && !refusal) refusal = offered.error();
  }
  if (!contest.best()) return *refusal;
  contest.best()->kind = "auto";
  return *std::move(contest.best());
}

}  // namespace trireme
