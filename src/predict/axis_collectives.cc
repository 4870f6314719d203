#include "predict/axis_collectives.h"

#include <array>
#include <set>
#include <span>
#include <tuple>

#include "predict/data_links.h"
#include "predict/predict.h"
#include "predict/tensor_moves.h"

namespace trireme {
namespace {

// The largest collective of each kind.
using Largest = std::array<AxisCollective, kNumVectorMoves>;

void take(Largest& largest, std::string axis, RankSpan span, const LargestCollective& other) {
  AxisCollective& known = largest[size_t(other.move)];
  if (other.sent_bytes <= known.sent_bytes) return;
  known = {std::move(axis),
           std::string(name_of(other.move)),
           span,
           other.sent_bytes,
           vector_bytes(span, other.move, other.sent_bytes),
           other.price};
}

void add(const Largest& largest, std::vector<AxisCollective>& all) {
  for (const AxisCollective& one : largest) {
    if (one.sent_bytes > 0.0) all.push_back(one);
  }
}

Largest over_tp(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware,
                CollectiveBytes& collective_bytes) {
  Largest largest;
  for (const ChunkTables& chunk : rank.chunks) {
    for (const ActionKind kind : {ActionKind::F, ActionKind::BW}) {
      const TensorMoves moves = price_tensor_moves(plan, rank, chunk.stage, MeshAxis::Tp, kind,
                                                   hardware, collective_bytes);
      const RankSpan span = span_on(hardware, plan.mesh, MeshAxis::Tp, rank.coords.pp);
      for (const LargestCollective& one : moves.largest) take(largest, "tp", span, one);
    }
  }
  return largest;
}

void add_dp(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware,
            CollectiveBytes& collective_bytes, Largest& largest) {
  const DataLinks links(plan, rank, hardware);
  std::set<std::tuple<ActionKind, int, int, int>> seen;
  for (const Action& action : rank.program) {
    const bool is_of_dp =
        action.kind == ActionKind::ReduceGrad || action.kind == ActionKind::Unshard;
    const bool is_new =
        is_of_dp &&
        seen.insert({action.kind, action.chunk, action.first_unit, action.num_units}).second;
    if (!is_new) continue;
    const AxisBytes traffic =
        predict_traffic(plan, rank, std::span<const Action>(&action, 1), collective_bytes);
    for (const DataCollective& part :
         links.collectives(action.kind, double(bytes_on_axis(traffic, "dp")))) {
      CollectivePrice price = price_collective(hardware, part.span, part.move, part.sent_bytes);
      price.seconds = links.seconds(part);
      take(largest, "dp", part.span, {part.move, part.sent_bytes, price});
    }
  }
}

// A parameter server pushes nothing and the other ranks answer no pull, so one of each is asked.
Largest over_dp(const RunPlan& plan, const RankPlan& rank, const Hardware& hardware,
                CollectiveBytes& collective_bytes) {
  Largest largest;
  add_dp(plan, rank, hardware, collective_bytes, largest);
  if (plan.config.parallel.sync == GradSync::ParameterServer && !plan.is_asynchronous()) {
    MeshCoords coords = rank.coords;
    coords.dp = plan.mesh.dp_at(coords.pp) - 1;
    add_dp(plan, rank_plan(plan, position_of(plan.mesh, coords)), hardware, collective_bytes,
           largest);
  }
  return largest;
}

}  // namespace

std::string_view name_of(VectorMove move) {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather"};
  return kNames[size_t(move)];
}

std::vector<AxisCollective> axis_collectives(const RunPlan& plan, const Hardware& hardware) {
  const RankPlan& rank = plan.pipeline.front();
  const Mesh& mesh = plan.mesh;
  CollectiveBytes collective_bytes(comm_cost(plan), hardware.nodes());
  std::vector<AxisCollective> all;
  if (mesh.tp_at(0) > 1) add(over_tp(plan, rank, hardware, collective_bytes), all);
  if (mesh.dp_at(0) > 1) add(over_dp(plan, rank, hardware, collective_bytes), all);
  const auto add_messages = [&](MeshAxis axis, const char* name, const char* collective) {
    const RankSpan span = span_on(hardware, mesh, axis, 0);
    if (span.count > 1) all.push_back({name, collective, span});
  };
  const bool is_ring = rank.shape.context_exchange == ContextExchange::Ring;
  add_messages(MeshAxis::Cp, "cp", is_ring ? "send" : "all_to_all");
  add_messages(MeshAxis::Ep, "ep", "all_to_all");
  add_messages(MeshAxis::Pp, "pp", "send");
  return all;
}

}  // namespace trireme
