#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "collectives/plan.h"
#include "schema/link_tier.h"
#include "schema/model_spec.h"
#include "schema/program.h"
#include "schema/stage_shape.h"

namespace trireme {

// Seconds for which compute waits for the collectives inside layers. Time that parallel.tp_overlap
// hides behind matmuls (tensor_moves.h) is not included.
struct LayerComm {
  double tp = 0.0;
  double cp = 0.0;
  double ep = 0.0;

  double total() const { return tp + cp + ep; }
  LayerComm& operator+=(const LayerComm& other);
};

// What the collectives inside the layers of a stage depend on, for one model and hardware.
struct LayerCommKey {
  ActionKind kind = ActionKind::F;
  StageSpec stage;
  StageShape shape;
  RankSpan tp, cp, ep;
  int num_ranks = 0;

  friend auto operator<=>(const LayerCommKey&, const LayerCommKey&) = default;
};

// Bytes that a rank sends in a collective with the algorithm that the runtime would choose. Caches
// its answers, because choosing an algorithm is expensive and layouts ask for few different
// collectives. For the same reason it has the seconds of the collectives inside layers that
// predict_layer_comm has priced, of one model and hardware.
class CollectiveBytes {
 public:
  std::map<LayerCommKey, LayerComm> layer_comm;

  // `request.algorithm` is ignored. If the ranks share memory they are all on one node, else each
  // rank is on a node of its own.
  int64_t sent(const PlanRequest& request, int64_t element_bytes, bool canonical,
               bool shares_memory);

 private:
  // Collective, size, root, count, counts, recv_counts, bytes per element, canonical.
  using Asked = std::tuple<Collective, int, int, int64_t, std::vector<int64_t>,
                           std::vector<int64_t>, int64_t, bool>;
  struct Chosen {
    Algorithm algorithm = Algorithm::Auto;
    std::map<int, int64_t> sent;  // [rank]
  };

  std::map<Asked, Chosen> chosen_;
};

}  // namespace trireme
