#pragma once

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/unit_price_cache.h"
#include "planner/layout_choice.h"
#include "planner/memory_bound.h"
#include "predict/collective_bytes.h"
#include "predict/layer_comm.h"

namespace trireme {

// Summing the parts in another order can give a result greater by this factor, so every bound is
// multiplied by it.
inline constexpr double kRounding = 1.0 - 1e-9;

OffloadChoice offload_of(const LayoutChoice& layout, const RunConfig& configured);

// Lower bounds of the time and memory of one layer of a layout on one rank. They do not depend on
// the schedule or on the split into stages. Caches what layouts have in common.
class LayerBounds {
 public:
  // The parameters of one layer on one rank, and the bytes of its tables before ZeRO and without
  // alignment. They are those of the kind of layer with the fewest parameters; only `tensors` is
  // that of the kind with the most tensors.
  struct Params {
    double elements = 0.0;
    double tensors = 0.0;
    StoredBytes stored;
  };
  // Seconds of the collectives in F and BW of one layer, for the kind of layer that needs least.
  // They are zero with parallel.pair, because the other half of a pair may hide them.
  struct ExchangeTimes {
    double forward_s = 0.0;
    double backward_s = 0.0;
  };
  // The memory and the times that one layer of a rank adds to the bounds with a ZeRO level.
  struct ZeroParts {
    double stored_bytes = 0.0;
    double update_s = 0.0;
    double reduce_s = 0.0;  // of one reduction
    double gather_s = 0.0;  // of one gather
  };
  // The mesh orders for which a bound holds: those of take_any_of(), or that of the layout.
  enum class Orders { Taken, Own };
  // The exchange of a layout; absent: the bound is the least of all exchanges of take_any_of().
  using ExchangeKey = std::optional<LayerExchange>;
  // The settings that decide the bounds of a layer: degrees (tp, cp, ep), sequences of a
  // micro-batch, recomputation and exchange.
  using Key = std::tuple<int, int, int, int64_t, Recompute, ExchangeKey>;

  // Both arguments must outlive the object.
  LayerBounds(const RunPlan& started, const Hardware& hardware)
      : started_(started), hardware_(hardware), prices_(hardware) {
    const NodeMap nodes = hardware.nodes();
    for (const int64_t size : nodes.sizes_of_run(std::numeric_limits<int64_t>::max())) {
      const Hardware equal = hardware.on_equal_nodes(size);
      on_nodes_.push_back({equal, CollectiveBytes(comm_cost(started_), equal.nodes())});
    }
  }

  // See LayoutBounds::take_any_of. Returns true if the orders have changed.
  bool take_any_of(std::vector<LayerExchange> exchanges, std::vector<MeshOrder> orders);
  // Returns the mesh of a layout in the first order of take_any_of(), or else in its own order.
  Mesh first_mesh_of(const LayoutChoice& layout) const;
  // Returns the mesh of a layout in every order of take_any_of(), or else in its own order.
  std::vector<Mesh> meshes_of(const LayoutChoice& layout) const;
  ExchangeKey exchange_key(const LayoutChoice& layout) const;
  Key key(const LayoutChoice& layout) const;
  // Returns the started plan with the shape of a layout.
  RunPlan shaped(const LayoutChoice& layout) const;

  const UnitPrices& unit_prices(const LayoutChoice& layout, uint64_t again);
  // Returns the prices on one device of a mixed cluster.
  const UnitPrices& prices_on(int device, const LayoutChoice& layout, uint64_t again);
  // Returns the highest prices over all sets of kept values and all exchanges of take_any_of().
  const UnitPrices& most_prices(const LayoutChoice& layout);
  const ExchangeTimes& exchanges(const LayoutChoice& layout);
  const Params& params(const Mesh& mesh);
  const ZeroParts& zero_parts(const LayoutChoice& layout, Orders orders);
  // Returns the activations for one micro-batch, on the rank that needs the least.
  const ActivationBytes& activations(const LayoutChoice& layout);
  const EndBytes& ends(const Mesh& mesh);
  // Returns the bytes of parameters, gradients and optimizer state after ZeRO.
  double sharded_bytes(const LayoutChoice& layout, const StoredBytes& stored) const;
  // Returns the least number of parameters of a layer that a dp rank holds.
  double least_part(const LayoutChoice& layout);
  // Returns true if borders between shards cut no matrix (Muon).
  bool keeps_matrices_whole(const LayoutChoice& layout) const;
  // Returns the least number of parameters of a layer that a dp rank updates.
  double updated_elements(const LayoutChoice& layout);

 private:
  using ZeroKey = std::tuple<int, int, OffloadChoice, Orders>;
  // The spans of tp, cp and the experts along dp among the ranks, for every order of take_any_of().
  using Spans = std::vector<std::array<RankSpan, 3>>;

  Spans spans_of(const LayoutChoice& layout) const;
  RunPlan shaped(const LayoutChoice& layout, uint64_t again) const;
  const UnitPrices& price(const LayoutChoice& layout, uint64_t again, OfDevices which);
  static Params least_params(const ModelSpec& model, const StageShape& shape);
  StageShape least_shape(const Mesh& mesh) const;
  ExchangeTimes price_exchanges(const LayoutChoice& layout);
  double dp_bytes_per_s(const LayoutChoice& layout, Orders orders, bool is_reduction) const;
  double dp_bytes_per_s(const Mesh& mesh, double shards, bool is_reduction) const;
  static double dp_bytes_per_s(const Hardware& hardware, const Mesh& mesh, double shards,
                               bool is_reduction);
  double reduce_seconds(const LayoutChoice& layout, Orders orders);
  double gather_seconds(const LayoutChoice& layout, Orders orders);

  const RunPlan& started_;
  const Hardware& hardware_;
  std::vector<LayerExchange> any_of_;
  std::vector<MeshOrder> any_order_;
  std::map<Key, ActivationBytes> activations_;
  std::map<std::pair<Key, uint64_t>, UnitPrices> unit_prices_;
  std::map<std::tuple<int, Key, uint64_t>, UnitPrices> prices_on_;
  std::map<Key, UnitPrices> most_prices_;
  // The times of exchanges also depend on how the ranks lie on nodes.
  std::map<std::tuple<Key, Spans, int>, ExchangeTimes> exchanges_;
  std::map<std::tuple<int, int>, Params> params_;
  std::map<std::tuple<int, int>, EndBytes> ends_;
  // Layouts that differ only in ZeRO follow each other, so the parts of the last mesh are enough.
  Mesh mesh_of_zero_parts_;
  std::vector<std::pair<ZeroKey, ZeroParts>> zero_parts_;
  // A group communicates at most as fast as if all nodes had the size that suits it best, so a
  // bound is the least over all sizes of nodes.
  struct OnNodes {
    Hardware hardware;
    CollectiveBytes collectives;
  };
  std::vector<OnNodes> on_nodes_;
  UnitPriceCache prices_;
};

}  // namespace trireme
