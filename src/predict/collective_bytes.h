#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/cost_model.h"
#include "collectives/plan.h"
#include "compile/run_plan.h"
#include "graph/moves.h"
#include "schema/link_tier.h"
#include "schema/model_spec.h"
#include "schema/program.h"
#include "schema/stage_shape.h"

namespace trireme {

// Seconds for which compute waits for the collectives inside layers. Time that parallel.tp_overlap
// hides behind matmuls (tensor_moves.h) is not included.
struct LayerComm {
  double tp = 0.0;
  double dp = 0.0;  // sums of batch norms; not the gradients, which are reduced beside the layers
  double cp = 0.0;
  double ep = 0.0;

  double total() const { return tp + dp + cp + ep; }
  LayerComm& operator+=(const LayerComm& other);
  friend LayerComm operator*(double factor, const LayerComm& comm);
};

// What the collectives inside the layers of a stage depend on, for one model and hardware.
struct LayerCommKey {
  ActionKind kind = ActionKind::F;
  StageSpec stage;
  StageShape shape;
  RankSpan tp, batch, cp;
  RankSpan ep_dp;  // of the ranks that share experts, those along dp
  int num_ranks = 0;

  friend auto operator<=>(const LayerCommKey&, const LayerCommKey&) = default;
};

// The ranks of a group by their positions: inner.count of them inner.stride apart, and these
// outer.count times, outer.stride apart.
struct GroupPlace {
  int64_t first = 0;  // position of the first rank
  RankSpan inner, outer;

  bool is_one_node(const NodeMap& nodes) const;
  std::vector<int> node_of(const NodeMap& nodes) const;  // [rank of the group]
  // Returns the same place for all groups whose ranks lie alike on equal nodes.
  GroupPlace normalized(const NodeMap& nodes) const;
  friend auto operator<=>(const GroupPlace&, const GroupPlace&) = default;
};

// The first position of a place, for prices that all groups on nodes alike share: 0 if all nodes of
// the cluster are equal.
int64_t first_alike(const NodeMap& nodes, const Mesh& mesh, int place);

// The costs by which the runtime of a plan chooses the algorithms of collectives: those of the
// cluster file that all ranks have read, or else the usual ones.
CommCost comm_cost(const RunPlan& plan);

// Bytes that a rank sends in a collective with the algorithm that the runtime chooses: both ask
// choose_algorithm, with the same costs and nodes. Caches its answers, because choosing an
// algorithm is expensive and layouts ask for few different collectives. For the same reason it has
// the seconds of the collectives inside layers that predict_layer_comm has priced, of one model and
// hardware.
class CollectiveBytes {
 public:
  CollectiveBytes(const CommCost& cost, const NodeMap& nodes) : cost_(cost), nodes_(nodes) {}

  const NodeMap& nodes() const { return nodes_; }

  std::map<LayerCommKey, LayerComm> layer_comm;

  // The transfers of a stage between tp ranks, of one model.
  const StageMoves& moves(const ModelSpec& model, const StageSpec& stage, const StageShape& shape);

  // `request.algorithm` and `request.node_of` are ignored. Ranks of one node share memory.
  int64_t sent(const PlanRequest& request, const GroupPlace& place, int64_t element_bytes,
               bool canonical);

 private:
  // Collective, size, root, count, counts, recv_counts, bytes per element, canonical, place.
  using Asked = std::tuple<Collective, int, int, int64_t, std::vector<int64_t>,
                           std::vector<int64_t>, int64_t, bool, GroupPlace>;
  struct Chosen {
    Algorithm algorithm = Algorithm::Auto;
    std::vector<int> node_of;     // [rank]
    std::map<int, int64_t> sent;  // [rank]
  };

  CommCost cost_;
  NodeMap nodes_;
  std::map<std::pair<StageSpec, StageShape>, StageMoves> moves_;
  std::map<Asked, Chosen> chosen_;
};

}  // namespace trireme
