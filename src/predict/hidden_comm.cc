#include "predict/hidden_comm.h"

#include <algorithm>

#include "predict/layer_comm.h"

namespace trireme {
namespace {

// Returns the exchanges that pass the turn. Those of a ring, and those that run beside products
// piece by piece, are hidden already.
LayerComm exchanges_of(const LayerComm& comm, const StageShape& shape) {
  LayerComm exchanges = comm;
  if (shape.context_exchange == ContextExchange::Ring) exchanges.cp = 0.0;
  if (shape.tp_overlap) exchanges.tp = 0.0;
  return exchanges;
}

// Returns the part of the exchanges of one action that `beside_s` seconds of computation hide.
LayerComm hidden_behind(const LayerComm& exchanges, double beside_s, int64_t num_layers) {
  const double total_s = exchanges.total();
  if (total_s <= 0.0) return {};
  const double num_exchanges = kExchangesOfLayer * double(num_layers);
  const double room_s = beside_s * num_exchanges / (num_exchanges + 1.0);
  return std::min(1.0, room_s / total_s) * exchanges;
}

}  // namespace

void price_pairs(const RunPlan& plan, std::vector<StageComm>& comm, Costs& costs) {
  for (const RankPlan& rank : plan.pipeline) {
    if (!has_pairs(plan.schedule.programs[size_t(rank.coords.pp)])) continue;
    for (size_t chunk = 0; chunk < 2; ++chunk) {
      const size_t f = size_t(rank.places[chunk].stage), bw = size_t(rank.places[1 - chunk].stage);
      const LayerComm of_f = exchanges_of(comm[f].f, rank.shape);
      const LayerComm of_bw = exchanges_of(comm[bw].bw, rank.shape);
      const double f_s = costs.stages[f].f_s - comm[f].f.total();
      const double bw_s = costs.stages[bw].bw_s - comm[bw].bw.total();
      comm[f].hidden = hidden_behind(of_f, bw_s, rank.chunks[chunk].stage.num_layers);
      comm[f].hidden += hidden_behind(of_bw, f_s, rank.chunks[1 - chunk].stage.num_layers);
      costs.stages[f].fb_s = costs.stages[f].f_s + costs.stages[bw].bw_s - comm[f].hidden.total();
    }
  }
}

}  // namespace trireme
