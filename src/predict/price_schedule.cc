#include "predict/price_schedule.h"

#include <map>
#include <set>
#include <utility>

#include "compile/grad_sums_price.h"
#include "compile/link_cost.h"
#include "compile/stage_cost.h"
#include "predict/hidden_comm.h"

namespace trireme {
namespace {

std::set<ActionKind> kinds_of(const Schedule& schedule) {
  std::set<ActionKind> kinds;
  for (const Program& program : schedule.programs) {
    for (const Action& action : program) kinds.insert(action.kind);
  }
  return kinds;
}

// Returns what the prices of a stage depend on: its layers, and the degrees and nodes of its place.
std::vector<int64_t> alike_key(const RunPlan& plan, const Hardware& hardware, const RankPlan& rank,
                               const StageSpec& stage) {
  std::vector<int64_t> key = content_of(plan.model, stage);
  const PlaceDegrees degrees = plan.mesh.at(rank.coords.pp);
  key.push_back(degrees.tp);
  key.push_back(degrees.dp);
  const NodeSizes nodes = nodes_of_place(hardware, plan.mesh, rank.coords.pp);
  key.push_back(nodes.least);
  key.push_back(nodes.most);
  return key;
}

}  // namespace

LayerComm StageComm::of(const Action& action) const {
  switch (action.kind) {
    case ActionKind::F: {
      LayerComm exposed = f;
      if (action.beside == Beside::Next) exposed += -1.0 * hidden;
      return exposed;
    }
    case ActionKind::B:
      return b;
    case ActionKind::W:
      return w;
    case ActionKind::BW:
      return bw;
    default:
      return {};
  }
}

PricedSchedule price_schedule(const RunPlan& plan, const PlanPrices& prices,
                              const Hardware& hardware, CollectiveBytes& collective_bytes,
                              double layer_saved_bytes) {
  std::vector<StageSpec> stages(size_t(num_stages(plan.schedule)));
  std::vector<StageComm> comm(stages.size());
  const std::vector<double> sums_s = price_grad_sums(plan, plan.stages, hardware);
  std::map<std::vector<int64_t>, StageComm> known;
  const std::set<ActionKind> kinds = kinds_of(plan.schedule);
  for (const RankPlan& rank : plan.pipeline) {
    for (size_t c = 0; c < rank.chunks.size(); ++c) {
      const size_t stage = size_t(rank.places[c].stage);
      const StageSpec& spec = rank.chunks[c].stage;
      const auto comm_of = [&](ActionKind kind) {
        if (!kinds.contains(kind)) return LayerComm{};
        return predict_layer_comm(plan, rank, {.kind = kind, .chunk = int16_t(c)}, hardware,
                                  collective_bytes);
      };
      const auto [alike, is_new] = known.try_emplace(alike_key(plan, hardware, rank, spec));
      if (is_new) {
        alike->second = {comm_of(ActionKind::F),
                         comm_of(ActionKind::B),
                         comm_of(ActionKind::W),
                         comm_of(ActionKind::BW),
                         {}};
      }
      comm[stage] = alike->second;
      stages[stage] = spec;
    }
  }
  Costs costs = pipeline_costs(plan, prices, stages, hardware);
  costs.saved_bytes.clear();
  const std::vector<int> lanes = lanes_of_stages(plan);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    StageTimes& times = costs.stages[stage];
    times.w_s += sums_s[stage];
    times.bw_s = times.b_s + times.w_s + comm[stage].bw.total();
    times.f_s += comm[stage].f.total();
    times.b_s += comm[stage].b.total();
    times.w_s += comm[stage].w.total();
    costs.saved_bytes.push_back(lanes[stage] * double(stages[stage].num_layers) *
                                layer_saved_bytes);
  }
  price_pairs(plan, hardware, comm, costs);
  price_lanes(plan, costs);
  Result<Simulation> simulation = simulate(plan.schedule, costs);
  return {std::move(simulation), std::move(comm), std::move(costs)};
}

}  // namespace trireme
