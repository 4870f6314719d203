#include "predict/layer_comm.h"

#include <algorithm>
#include <span>

#include "compile/collective_price.h"
#include "predict/predict.h"
#include "predict/stage_blocks.h"
#include "predict/tensor_moves.h"

namespace trireme {
namespace {

// Returns the number of all-reduces in Step over an axis. Our runtime makes one for every gradient
// of which the ranks hold partial sums. Other trainers join several gradients in one.
double num_sums(const RankPlan& rank, int ParamLayout::*addends, const Hardware& hardware) {
  if (!hardware.is_processor()) return kExchangesOfLayer;
  double sums = 0.0;
  for (const ChunkTables& chunk : rank.chunks) {
    for (const OwnedParam& owned : chunk.owned) {
      if (!owned.has_grad() || chunk.layouts[owned.param].*addends == 1) continue;
      const bool is_second_sum = addends == &ParamLayout::cp_addends && owned.second_use_begin >= 0;
      sums += is_second_sum ? 2.0 : 1.0;
    }
  }
  return sums;
}

// Returns the rounds of the cp ring in a layer. Keys and values visit all other ranks. In the
// backward pass their gradients also travel, and return to the rank that they belong to.
double rounds_of_ring(ActionKind kind, int cp) {
  switch (kind) {
    case ActionKind::F:
      return cp - 1;
    case ActionKind::B:
    case ActionKind::BW:
      return 2 * cp - 1;
    default:
      return 0.0;
  }
}

LayerComm comm_of(const RunPlan& plan, const RankPlan& rank, const Action& action,
                  const Hardware& hardware, CollectiveBytes& collective_bytes) {
  const Mesh& mesh = plan.mesh;
  const auto span = [&](MeshAxis axis) { return span_on(hardware, mesh, axis, rank.coords.pp); };
  const bool is_of_chunk = action.chunk >= 0;
  const double layers =
      is_of_chunk ? double(num_blocks(plan.model, rank.chunks[size_t(action.chunk)].stage)) : 1.0;
  const AxisBytes traffic =
      predict_traffic(plan, rank, std::span<const Action>(&action, 1), collective_bytes);
  const auto seconds = [&](std::string_view axis, const LinkSpec& link, double exchanges) {
    return transfer_s(link, double(bytes_on_axis(traffic, axis)), layers * exchanges);
  };
  // Step sums gradients, which lie in memory.
  const auto sums_s = [&](std::string_view axis, MeshAxis of, double sums) {
    return vectors_s(hardware, span(of), VectorMove::AllReduce,
                     double(bytes_on_axis(traffic, axis)), sums);
  };
  LayerComm comm;
  comm.ep = seconds("ep", exchange_link(hardware, span(MeshAxis::Ep)), kExchangesOfLayer);
  if (!is_of_chunk) {
    comm.tp = sums_s("tp", MeshAxis::Tp, num_sums(rank, &ParamLayout::grad_addends, hardware));
    comm.cp = sums_s("cp", MeshAxis::Cp, num_sums(rank, &ParamLayout::cp_addends, hardware));
    return comm;
  }
  const auto moves_s = [&](MeshAxis axis) {
    const StageSpec& stage = rank.chunks[size_t(action.chunk)].stage;
    return price_tensor_moves(plan, rank, stage, axis, action.kind, hardware, collective_bytes)
        .seconds;
  };
  comm.tp = moves_s(MeshAxis::Tp);
  comm.dp = moves_s(MeshAxis::Dp);
  const RankSpan cp = span(MeshAxis::Cp);
  const bool is_ring = rank.shape.context_exchange == ContextExchange::Ring;
  // In a ring every rank waits for the slowest neighbour, to which its communication thread sends.
  const int64_t first = first_alike(collective_bytes.nodes(), mesh, rank.coords.pp);
  LinkSpec neighbour = pair_link(hardware, first, first + (cp.count - 1) * cp.stride);
  neighbour.latency_s += hardware.background_s;
  comm.cp = is_ring ? seconds("cp", neighbour, rounds_of_ring(action.kind, mesh.cp))
                    : seconds("cp", exchange_link(hardware, cp), kExchangesOfLayer);
  return comm;
}

// The part of a group of ep along dp. Its part along cp follows from the span of cp.
RankSpan experts_along_dp(const Mesh& mesh, int place, NodeSizes nodes) {
  if (mesh.ep_dp() == 1) return {};
  return {mesh.ep_dp(), stride_of(mesh, MeshAxis::Dp, place), nodes};
}

// The ranks whose images are one batch of batch norms.
RankSpan batch_span(const Hardware& hardware, const Mesh& mesh, const StageShape& shape,
                    int place) {
  return shape.batch_ranks == 1 ? RankSpan{} : span_on(hardware, mesh, MeshAxis::Dp, place);
}

}  // namespace

LayerComm& LayerComm::operator+=(const LayerComm& other) {
  tp += other.tp;
  dp += other.dp;
  cp += other.cp;
  ep += other.ep;
  return *this;
}

LayerComm operator*(double factor, const LayerComm& comm) {
  return {factor * comm.tp, factor * comm.dp, factor * comm.cp, factor * comm.ep};
}

LayerComm predict_layer_comm(const RunPlan& plan, const RankPlan& rank, const Action& action,
                             const Hardware& hardware, CollectiveBytes& collective_bytes) {
  const Mesh& mesh = plan.mesh;
  if (action.chunk < 0) return comm_of(plan, rank, action, hardware, collective_bytes);
  // All layers of a kind exchange the same bytes, so the cost of many follows from that of one.
  const StageSpec& stage = rank.chunks[size_t(action.chunk)].stage;
  RankPlan outline;
  outline.coords = rank.coords;
  outline.coords.dp = 0;  // prices are those of the first groups
  const bool are_places_alike = !mesh.is_uneven() && collective_bytes.nodes().are_equal();
  if (are_places_alike) outline.coords.pp = 0;
  outline.shape = rank.shape;
  // What is computed again does not change F.
  if (action.kind == ActionKind::F) {
    outline.shape.recompute = Recompute::None;
    outline.shape.again = 0;
  }
  const RankSpan tp = span_on(hardware, mesh, MeshAxis::Tp, rank.coords.pp);
  const RankSpan cp = span_on(hardware, mesh, MeshAxis::Cp, rank.coords.pp);
  const auto of_part = [&](const StageSpec& part) {
    outline.chunks.assign(1, ChunkTables{.stage = part});
    const LayerCommKey key{action.kind,
                           part,
                           outline.shape,
                           tp,
                           batch_span(hardware, mesh, outline.shape, rank.coords.pp),
                           cp,
                           experts_along_dp(mesh, rank.coords.pp, tp.nodes),
                           mesh.size()};
    const auto [known, is_new] = collective_bytes.layer_comm.try_emplace(key);
    if (is_new) {
      known->second = comm_of(plan, outline, {.kind = action.kind}, hardware, collective_bytes);
    }
    return known->second;
  };
  LayerComm comm = of_part({0, 0, stage.has_embedding, stage.has_head});
  const std::vector<LayerRun> kinds = layer_kinds(plan.model);
  for (const LayerRun& run : layer_runs(kinds, stage)) {
    const int64_t first = kinds[size_t(run.kind)].first;  // so that stages share prices
    comm += double(run.count) * of_part({first, 1, false, false});
  }
  return comm;
}

}  // namespace trireme
