#include "predict/layer_comm.h"

#include <algorithm>
#include <span>

#include "predict/predict.h"
#include "predict/tensor_moves.h"

namespace trireme {
namespace {

// A layer exchanges twice at the entry and twice at the exit of its blocks, in each direction.
constexpr double kExchangesOfLayer = 2.0;

LayerComm comm_of(const RunPlan& plan, const RankPlan& rank, const Action& action,
                  const Hardware& hardware, CollectiveBytes& collective_bytes) {
  const Mesh& mesh = plan.mesh;
  const int ranks_per_node = std::max(hardware.ranks_per_node, 1);
  const double layers =
      action.chunk < 0 ? 1.0 : double(rank.chunks[size_t(action.chunk)].stage.num_layers);
  const AxisBytes traffic = predict_traffic(plan, rank, ranks_per_node,
                                            std::span<const Action>(&action, 1), collective_bytes);
  const auto seconds = [&](std::string_view axis, bool is_inside, double exchanges) {
    const auto found = std::find_if(traffic.begin(), traffic.end(),
                                    [&](const auto& entry) { return entry.first == axis; });
    if (found == traffic.end() || found->second == 0) return 0.0;
    const LinkSpec& link = is_inside ? hardware.inside_node : hardware.between_nodes;
    if (link.bytes_per_s <= 0.0) return 0.0;
    return double(found->second) / link.bytes_per_s + layers * exchanges * link.latency_s;
  };
  const auto is_inside = [&](int count, int stride) {
    return is_inside_node(count, stride, ranks_per_node);
  };
  const bool experts_inside =
      is_inside(mesh.ep_cp(), mesh.tp) && is_inside(mesh.ep_dp(), mesh.tp * mesh.cp * mesh.pp);
  LayerComm comm;
  const bool tp_inside = is_inside(mesh.tp, 1);
  comm.tp = action.chunk < 0 ? seconds("tp", tp_inside, kExchangesOfLayer)
                             : price_tensor_moves(
                                   plan, rank, rank.chunks[size_t(action.chunk)].stage, action.kind,
                                   tp_inside ? hardware.inside_node : hardware.between_nodes,
                                   hardware, collective_bytes)
                                   .seconds;
  comm.cp = seconds("cp", is_inside(mesh.cp, mesh.tp), mesh.cp - 1);
  comm.ep = seconds("ep", experts_inside, kExchangesOfLayer);
  return comm;
}

}  // namespace

LayerComm& LayerComm::operator+=(const LayerComm& other) {
  tp += other.tp;
  cp += other.cp;
  ep += other.ep;
  return *this;
}

bool is_inside_node(int count, int stride, int ranks_per_node) {
  return count == 1 || count * stride <= std::max(ranks_per_node, 1);
}

LayerComm predict_layer_comm(const RunPlan& plan, const RankPlan& rank, const Action& action,
                             const Hardware& hardware, CollectiveBytes& collective_bytes) {
  const Mesh& mesh = plan.mesh;
  if (mesh.tp * mesh.cp * mesh.ep == 1) return {};
  if (action.chunk < 0) return comm_of(plan, rank, action, hardware, collective_bytes);
  // All layers exchange the same bytes, so the cost of many layers follows from the costs of one
  // and of two.
  const StageSpec& stage = rank.chunks[size_t(action.chunk)].stage;
  RankPlan outline;
  outline.coords = rank.coords;
  outline.shape = rank.shape;
  const auto of_layers = [&](int64_t layers) {
    StageSpec part = stage;
    part.num_layers = layers;
    outline.chunks.assign(1, ChunkTables{.stage = part});
    return comm_of(plan, outline, {.kind = action.kind}, hardware, collective_bytes);
  };
  const LayerComm one = of_layers(1);
  if (stage.num_layers == 1) return one;
  const LayerComm two = of_layers(2);
  const double more = double(stage.num_layers - 1);
  return {one.tp + more * (two.tp - one.tp), one.cp + more * (two.cp - one.cp),
          one.ep + more * (two.ep - one.ep)};
}

}  // namespace trireme
