#include "predict/predict.h"

#include <algorithm>

#include "compile/link_cost.h"
#include "compile/step_price.h"
#include "compile/unit_price.h"
#include "predict/disturbed_step.h"
#include "predict/join_price.h"
#include "predict/layer_comm.h"
#include "predict/predict_offload.h"
#include "predict/predict_overlap.h"
#include "predict/price_newton_schulz.h"
#include "sim/simulate.h"

namespace trireme {
namespace {

// Kernel calls of Step for a parameter: the norm of its gradient, and its update.
constexpr double kKernelsOfParam = 2.0;

size_t axis_index(std::string_view axis) {
  return size_t(std::find(kTrafficAxes.begin(), kTrafficAxes.end(), axis) - kTrafficAxes.begin());
}

// Time of the collectives inside layers, and of the sums over tp and cp in Step.
LayerComm layer_comm_of(const RunPlan& plan, const RankPlan& rank,
                        const std::vector<StageComm>& comm) {
  LayerComm sum;
  for (const Action& action : plan.schedule.programs[size_t(rank.coords.pp)]) {
    if (action.chunk < 0) continue;
    sum += comm[size_t(rank.places[size_t(action.chunk)].stage)].of(action);
  }
  return double(rank.lanes.count) * sum;
}

// Seconds of the short call at the end of a step in which all ranks exchange losses, norms and
// whether to stop. Nothing hides it. On other devices it is a part of Hardware::step_s.
double exchange_s(const RunPlan& plan, const Hardware& hardware) {
  if (!hardware.is_processor() || plan.num_ranks() == 1) return 0.0;
  const int num_calls = plan.shape.reports_logits ? 2 : 1;
  const int64_t ranks = plan.num_ranks();
  return num_calls *
         group_link(hardware, {ranks, 1, hardware.nodes().sizes(0, ranks - 1)}).latency_s;
}

std::vector<StepTimes> slowest_of_stages(const RunPlan& plan, const std::vector<StepTimes>& ranks) {
  std::vector<StepTimes> stages(size_t(plan.mesh.pp));
  for (size_t position = 0; position < ranks.size(); ++position) {
    StepTimes& slowest = stages[size_t(coords_of(plan.mesh, int(position)).pp)];
    const StepTimes& own = ranks[position];
    if (std::pair(own.step, own.compute) > std::pair(slowest.step, slowest.compute)) slowest = own;
  }
  return stages;
}

}  // namespace

Result<Simulation> simulate_plan(const RunPlan& plan, const Hardware& hardware) {
  CollectiveBytes collective_bytes(comm_cost(plan), hardware.nodes());
  return price_schedule(plan, price_places(plan, hardware), hardware, collective_bytes).simulation;
}

double predict_update(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware) {
  double of_muon = 0.0, others = 0.0, newton_schulz_s = 0.0, kernels = 0.0;
  int units = 0;
  for (const ChunkTables& chunk : rank.chunks) {
    units += num_units(chunk.stage);
    for (const OwnedParam& owned : chunk.owned) {
      if (owned.is_frozen) continue;
      kernels += kKernelsOfParam;
      (owned.takes_muon ? of_muon : others) += double(owned.count);
      if (!owned.takes_muon) continue;
      newton_schulz_s += price_newton_schulz(chunk.matrices[owned.param], plan.shape, hardware);
    }
  }
  StageShape without_muon = plan.shape;
  without_muon.optimizer_state.muon = false;
  const double launches_s = hardware.is_processor() ? kernels * hardware.launch_s : 0.0;
  const double kernels_s = price_update(others, without_muon, hardware) +
                           price_update(of_muon, plan.shape, hardware) + newton_schulz_s;
  // Those of a trainer that keeps one flat tensor of every unit.
  const double host_s = units * hardware.practice.update_launches * hardware.launch_s;
  return std::max(kernels_s, host_s) + launches_s + hardware.step_s;
}

std::vector<StepTimes> predict_stages(const RunPlan& plan, const Hardware& hardware) {
  if (hardware.is_mixed()) return slowest_of_stages(plan, predict_mixed_ranks(plan, hardware));
  CollectiveBytes collective_bytes(comm_cost(plan), hardware.nodes());
  const PlanPrices prices = price_places(plan, hardware);
  const PricedSchedule priced = price_schedule(plan, prices, hardware, collective_bytes);
  return predict_stages(plan, prices, priced, hardware, collective_bytes);
}

std::vector<StepTimes> predict_stages(const RunPlan& plan, const PlanPrices& prices,
                                      const PricedSchedule& priced, const Hardware& hardware,
                                      CollectiveBytes& collective_bytes) {
  std::vector<StepTimes> times(size_t(plan.mesh.pp));
  if (!priced.simulation.ok()) return times;
  for (const RankPlan& rank : plan.pipeline) {
    times[size_t(rank.coords.pp)] =
        predict_stage(plan, rank, prices, priced, hardware, collective_bytes);
  }
  return times;
}

// All ranks of one stage take the same time.
StepTimes predict_stage(const RunPlan& plan, const RankPlan& rank, const PlanPrices& of_places,
                        const PricedSchedule& priced, const Hardware& hardware,
                        CollectiveBytes& collective_bytes) {
  const UnitPrices& prices = of_places.at(plan.mesh, rank.coords.pp);
  const RankSimulation& simulated = priced.simulation->ranks[size_t(rank.coords.pp)];
  const LayerComm in_layers = layer_comm_of(plan, rank, priced.comm);
  const LayerComm in_step =
      predict_layer_comm(plan, rank, {.kind = ActionKind::Step, .chunk = -1, .microbatch = -1},
                         hardware, collective_bytes);
  StepTimes time;
  time.optimizer = predict_update(plan, rank, hardware);
  time.compute = simulated.busy_s - in_layers.total() + time.optimizer;
  const auto expose = [&](std::string_view axis, double seconds) {
    time.exposed[axis_index(axis)] = seconds;
    time.exposed_comm += seconds;
  };
  const double dp_s = predict_overlap(plan, rank, prices, hardware, collective_bytes).exposed_s;
  const double joins_s = price_joins(plan, rank, hardware, collective_bytes);
  const OffloadTimes file = predict_offload(plan, rank, prices, hardware);
  time.compute += file.slowed_s;
  expose("pp", simulated.exposed_comm_s + joins_s);
  expose("dp", dp_s + in_layers.dp);
  expose("file", file.waited_s);
  expose("tp", in_layers.tp + in_step.tp);
  expose("cp", in_layers.cp + in_step.cp);
  expose("ep", in_layers.ep + in_step.ep);
  const double world_s = exchange_s(plan, hardware);
  expose("world", world_s);
  const double makespan_s = priced.simulation->makespan_s;
  time.bubble = makespan_s - simulated.busy_s - simulated.exposed_comm_s;
  time.step =
      makespan_s + joins_s + time.optimizer + dp_s + file.added_s() + in_step.total() + world_s;
  return time;
}

double Predictions::step_s() const {
  double step_s = 0.0;
  for (const PredictedClass& alike : classes) step_s = std::max(step_s, alike.prediction.time.step);
  return step_s;
}

double predicted_step_s(const RunPlan& plan, const Hardware& hardware) {
  double step_s = 0.0;
  for (const StepTimes& stage : predict_stages(plan, hardware)) {
    step_s = std::max(step_s, stage.step);
  }
  return step_s;
}

}  // namespace trireme
