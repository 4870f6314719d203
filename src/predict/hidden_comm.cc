#include "predict/hidden_comm.h"

#include <algorithm>

#include "compile/link_cost.h"
#include "compile/unit_price.h"
#include "graph/op_work.h"
#include "memory/stage_units.h"
#include "predict/layer_comm.h"
#include "predict/stage_blocks.h"

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

// Seconds of computation in the layers of a stage that have experts. The dispatch and the combine
// of a layer, and of its backward pass, are what separates them.
struct ExpertPieces {
  int64_t num_layers = 0;
  double experts_f_s = 0.0, others_f_s = 0.0;
  double experts_b_s = 0.0;
  double rest_of_bw_s = 0.0;  // W of the experts, which waits, and B and W of everything else

  double of_layer(double seconds) const { return seconds / double(num_layers); }
};

bool is_of_experts(const Graph& graph, const Op& op) {
  if (op.kind == OpKind::GroupedLinear) return true;
  return op.kind == OpKind::Activation &&
         graph.values[size_t(op.inputs.front())].dims.front() == Axis::Visit;
}

void add_layer(const UnitKind& kind, const RunPlan& plan, const RankPlan& rank,
               const Hardware& hardware, ExpertPieces& pieces) {
  const std::vector<OpWork> works =
      op_works(kind.graph, shard_model(plan.model, rank.shape), rank.shape);
  const std::vector<OpSeconds> prices = price_ops(works, plan.model, rank.shape, hardware);
  for (size_t i = 0; i < prices.size(); ++i) {
    const auto [f_s, b_s, w_s] = prices[i];
    const bool is_expert = is_of_experts(kind.graph, kind.graph.ops[i]);
    (is_expert ? pieces.experts_f_s : pieces.others_f_s) += f_s;
    (is_expert ? pieces.experts_b_s : pieces.rest_of_bw_s) += b_s;
    pieces.rest_of_bw_s += w_s + (kind.kept.runs_again[i] ? f_s : 0.0);
  }
  ++pieces.num_layers;
}

ExpertPieces pieces_of(const RunPlan& plan, const RankPlan& rank, const StageSpec& stage,
                       const Hardware& hardware) {
  ExpertPieces pieces;
  const StageUnits units = stage_units(plan.model, stage, rank.shape);
  for (const StageUnit& unit : units.units) {
    const UnitKind& kind = units.kind_of(unit);
    const auto has_experts = [](const Op& op) { return op.kind == OpKind::Dispatch; };
    const std::vector<Op>& ops = kind.graph.ops;
    if (unit.name == "head" || std::none_of(ops.begin(), ops.end(), has_experts)) continue;
    add_layer(kind, plan, rank, hardware, pieces);
  }
  return pieces;
}

// Returns what F and BW hide of their dispatches and combines. BW begins, so each exchange has a
// piece of the other action beside it, in this order: the first of BW beside what F computes before
// its dispatch, this dispatch beside B of the experts, and so on.
LayerComm hidden_of_experts(const LayerComm& of_f, const ExpertPieces& f, const LayerComm& of_bw,
                            const ExpertPieces& bw) {
  if (f.num_layers == 0 || bw.num_layers == 0) return {};
  const double f_exchange_s = f.of_layer(of_f.ep) / kExchangesOfLayer;
  const double bw_exchange_s = bw.of_layer(of_bw.ep) / kExchangesOfLayer;
  const double of_layer_s = std::min(bw_exchange_s, f.of_layer(f.others_f_s)) +
                            std::min(f_exchange_s, bw.of_layer(bw.experts_b_s)) +
                            std::min(bw_exchange_s, f.of_layer(f.experts_f_s)) +
                            std::min(f_exchange_s, bw.of_layer(bw.rest_of_bw_s));
  return {.ep = of_layer_s * double(std::min(f.num_layers, bw.num_layers))};
}

// Returns the part of the exchanges of one action that `beside_s` seconds of computation hide, if
// all pieces of it have one length.
LayerComm hidden_behind(const LayerComm& exchanges, double beside_s, int64_t num_layers) {
  const double total_s = exchanges.total();
  if (total_s <= 0.0) return {};
  const double num_exchanges = kExchangesOfLayer * double(num_layers);
  const double room_s = beside_s * num_exchanges / (num_exchanges + 1.0);
  return std::min(1.0, room_s / total_s) * exchanges;
}

bool are_of_experts_alone(const LayerComm& exchanges) {
  return exchanges.ep > 0.0 && exchanges.tp == 0.0 && exchanges.cp == 0.0;
}

// Returns the seconds by which exchanges make the computation longer beside which they travel.
double taken_s(const LayerComm& hidden, const RunPlan& plan, const RankPlan& rank,
               const Hardware& hardware) {
  const auto of_axis = [&](double hidden_s, MeshAxis axis) {
    const LinkSpec link = exchange_link(hardware, span_of(plan.mesh, axis, rank.coords.pp));
    return hidden_s * std::min(1.0, link.bytes_per_s * hardware.core_s_per_byte);
  };
  return of_axis(hidden.tp, MeshAxis::Tp) + of_axis(hidden.cp, MeshAxis::Cp) +
         of_axis(hidden.ep, MeshAxis::Ep);
}

}  // namespace

void price_pairs(const RunPlan& plan, const Hardware& hardware, std::vector<StageComm>& comm,
                 Costs& costs) {
  for (const RankPlan& rank : plan.pipeline) {
    if (!has_pairs(plan.schedule.programs[size_t(rank.coords.pp)])) continue;
    for (size_t chunk = 0; chunk < 2; ++chunk) {
      const size_t f = size_t(rank.places[chunk].stage), bw = size_t(rank.places[1 - chunk].stage);
      const StageSpec& spec_f = rank.chunks[chunk].stage;
      const StageSpec& spec_bw = rank.chunks[1 - chunk].stage;
      const LayerComm of_f = exchanges_of(comm[f].f, rank.shape);
      const LayerComm of_bw = exchanges_of(comm[bw].bw, rank.shape);
      if (are_of_experts_alone(of_f) && are_of_experts_alone(of_bw)) {
        comm[f].hidden = hidden_of_experts(of_f, pieces_of(plan, rank, spec_f, hardware), of_bw,
                                           pieces_of(plan, rank, spec_bw, hardware));
      } else {
        const double f_s = costs.stages[f].f_s - comm[f].f.total();
        const double bw_s = costs.stages[bw].bw_s - comm[bw].bw.total();
        comm[f].hidden = hidden_behind(of_f, bw_s, num_blocks(plan.model, spec_f));
        comm[f].hidden += hidden_behind(of_bw, f_s, num_blocks(plan.model, spec_bw));
      }
      const LayerComm& hidden = comm[f].hidden;
      costs.stages[f].fb_s = costs.stages[f].f_s + costs.stages[bw].bw_s - hidden.total() +
                             taken_s(hidden, plan, rank, hardware);
    }
  }
}

}  // namespace trireme
