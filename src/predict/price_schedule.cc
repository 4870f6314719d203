#include "predict/price_schedule.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compile/stage_cost.h"

namespace trireme {
namespace {

std::set<ActionKind> kinds_of(const Schedule& schedule) {
  std::set<ActionKind> kinds;
  for (const Program& program : schedule.programs) {
    for (const Action& action : program) kinds.insert(action.kind);
  }
  return kinds;
}

}  // namespace

LayerComm StageComm::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::F:
      return f;
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

PricedSchedule price_schedule(const RunPlan& plan, const UnitPrices& prices,
                              const Hardware& hardware, CollectiveBytes& collective_bytes,
                              double layer_saved_bytes) {
  std::vector<StageSpec> stages(size_t(num_stages(plan.schedule)));
  std::vector<StageComm> comm(stages.size());
  std::map<std::vector<int64_t>, StageComm> comm_of_content;
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
      const auto [alike, is_new] = comm_of_content.try_emplace(content_of(plan.model, spec));
      if (is_new) {
        alike->second = {comm_of(ActionKind::F), comm_of(ActionKind::B), comm_of(ActionKind::W),
                         comm_of(ActionKind::BW)};
      }
      comm[stage] = alike->second;
      stages[stage] = spec;
    }
  }
  Costs costs = pipeline_costs(plan, prices, stages, hardware);
  costs.saved_bytes.clear();
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    StageTimes& times = costs.stages[stage];
    times.bw_s = times.b_s + times.w_s + comm[stage].bw.total();
    times.f_s += comm[stage].f.total();
    times.b_s += comm[stage].b.total();
    times.w_s += comm[stage].w.total();
    costs.saved_bytes.push_back(double(stages[stage].num_layers) * layer_saved_bytes);
  }
  Result<Simulation> simulation = simulate(plan.schedule, costs);
  return {std::move(simulation), std::move(comm), std::move(costs)};
}

}  // namespace trireme
