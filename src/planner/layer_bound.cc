#include "planner/layer_bound.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/align.h"
#include "compile/collective_price.h"
#include "compile/shape_for_mesh.h"
#include "compile/stage_cost.h"
#include "compile/step_price.h"
#include "graph/op_tensors.h"
#include "memory/chunk_tables.h"
#include "memory/stage_tables.h"
#include "memory/stage_units.h"
#include "schema/norm_chunk.h"

namespace trireme {
namespace {

// Number of norm tensors of the embedding and the head, which may be in one bucket with a layer.
constexpr double kSmallTensorsOfEnds = 4.0;
// Number of tensors of a module of multi-token prediction that are not in its block.
constexpr double kTensorsBesideBlock = 8.0;

// The results for all items, of which there is at least one, taken together by `join`.
template <typename Item, typename Join, typename Of>
auto joined_over(const std::vector<Item>& items, Join join, Of of) {
  auto joined = of(items.front());
  for (size_t i = 1; i < items.size(); ++i) joined = join(joined, of(items[i]));
  return joined;
}

// The result for the exchange of a layout, or the results for any of some exchanges, taken together
// by `join`.
template <typename T, typename Join, typename Of>
T joined_of(const std::vector<LayerExchange>& any_of, LayoutChoice layout, Join join, Of of) {
  if (any_of.empty()) return of(layout);
  return joined_over(any_of, join, [&](const LayerExchange& exchange) -> T {
    layout.exchange = exchange;
    return of(layout);
  });
}

template <typename Pick>
UnitPrices pick_prices(UnitPrices a, const UnitPrices& b, Pick pick) {
  const auto pick_unit = [&](ComputeTimes& unit, const ComputeTimes& other) {
    for (double ComputeTimes::*half :
         {&ComputeTimes::f_s, &ComputeTimes::b_s, &ComputeTimes::w_s}) {
      unit.*half = pick(unit.*half, other.*half);
    }
  };
  pick_unit(a.embedding, b.embedding);
  pick_unit(a.head, b.head);
  for (size_t kind = 0; kind < a.layers.size(); ++kind) pick_unit(a.layers[kind], b.layers[kind]);
  return a;
}
UnitPrices least_prices(const UnitPrices& a, const UnitPrices& b) {
  return pick_prices(a, b, [](double x, double y) { return std::min(x, y); });
}
UnitPrices greatest_prices(const UnitPrices& a, const UnitPrices& b) {
  return pick_prices(a, b, [](double x, double y) { return std::max(x, y); });
}

// The ranks among which a gradient is first summed.
double num_shards(const LayoutChoice& layout) {
  const bool is_hybrid = layout.zero > 0 && layout.hsdp_shard > 0;
  return is_hybrid ? layout.hsdp_shard : layout.mesh.dp;
}

}  // namespace

OffloadChoice offload_of(const LayoutChoice& layout, const RunConfig& configured) {
  return layout.transfers ? layout.transfers->offload : configured.memory.offload;
}

bool LayerBounds::take_any_of(std::vector<LayerExchange> exchanges, std::vector<MeshOrder> orders) {
  any_of_ = std::move(exchanges);
  if (any_order_ == orders) return false;
  any_order_ = std::move(orders);
  zero_parts_.clear();
  return true;
}

Mesh LayerBounds::first_mesh_of(const LayoutChoice& layout) const {
  Mesh mesh = layout.mesh;
  if (!any_order_.empty()) mesh.order = any_order_.front();
  return mesh;
}

std::vector<Mesh> LayerBounds::meshes_of(const LayoutChoice& layout) const {
  if (any_order_.empty()) return {layout.mesh};
  std::vector<Mesh> meshes(any_order_.size(), layout.mesh);
  for (size_t i = 0; i < meshes.size(); ++i) meshes[i].order = any_order_[i];
  return meshes;
}

LayerBounds::Spans LayerBounds::spans_of(const LayoutChoice& layout) const {
  Spans spans;
  for (const Mesh& mesh : meshes_of(layout)) {
    spans.push_back({span_of(mesh, MeshAxis::Tp), span_of(mesh, MeshAxis::Cp),
                     mesh.ep_dp() > 1 ? span_of(mesh, MeshAxis::Dp) : RankSpan{}});
  }
  return spans;
}

LayerBounds::ExchangeKey LayerBounds::exchange_key(const LayoutChoice& layout) const {
  return any_of_.empty() ? ExchangeKey(layout.exchange) : std::nullopt;
}

LayerBounds::Key LayerBounds::key(const LayoutChoice& layout) const {
  const Mesh& mesh = layout.mesh;
  return {
      mesh.tp, mesh.cp, mesh.ep, layout.micro_sequences, layout.recompute, exchange_key(layout)};
}

RunPlan LayerBounds::shaped(const LayoutChoice& layout, uint64_t again) const {
  RunPlan plan = shaped(layout);
  plan.shape.again = layout.recompute == Recompute::Fit ? again : 0;  // else it changes nothing
  return plan;
}

const UnitPrices& LayerBounds::price(const LayoutChoice& layout, uint64_t again, OfDevices which) {
  const RunPlan plan = shaped(layout, again);
  const PlanPrices& prices =
      which == OfDevices::Fastest ? prices_.of(plan) : prices_.slowest_of(plan);
  return prices.at(plan.mesh, 0);
}

const UnitPrices& LayerBounds::unit_prices(const LayoutChoice& layout, uint64_t again) {
  const auto [found, is_new] = unit_prices_.try_emplace({key(layout), again});
  if (is_new) {
    found->second = joined_of<UnitPrices>(any_of_, layout, least_prices, [&](const auto& one) {
      return price(one, again, OfDevices::Fastest);
    });
  }
  return found->second;
}

const UnitPrices& LayerBounds::prices_on(int device, const LayoutChoice& layout, uint64_t again) {
  const auto [found, is_new] = prices_on_.try_emplace({device, key(layout), again});
  if (is_new) {
    const Hardware own = hardware_.all_of_device(device);
    found->second = joined_of<UnitPrices>(any_of_, layout, least_prices, [&](const auto& one) {
      return price_units(shaped(one, again), own, OfDevices::Fastest);
    });
  }
  return found->second;
}

const UnitPrices& LayerBounds::most_prices(const LayoutChoice& layout) {
  const auto [found, is_new] = most_prices_.try_emplace(key(layout));
  if (is_new) {
    found->second = joined_of<UnitPrices>(any_of_, layout, greatest_prices, [&](const auto& one) {
      return price(one, kEverythingAgain, OfDevices::Slowest);
    });
  }
  return found->second;
}

// Takes the kind of layer with the fewest parameters, and the number of tensors of the kind with
// most.
LayerBounds::Params LayerBounds::least_params(const ModelSpec& model, const StageShape& shape) {
  constexpr double kMost = std::numeric_limits<double>::max();
  Params least{kMost, 0.0, {kMost, kMost, kMost}};
  for (const LayerRun& kind : layer_kinds(model)) {
    const StageSpec layer{kind.first, 1, false, false};
    const std::vector<ParamSpec> table = local_param_table(model, layer, shape);
    double elements = 0.0;
    for (const ParamSpec& param : table) elements += double(param.shape.num_elements());
    const double of_layer = double(table.size());
    const double of_modules = double(model.mtp_depth) * (of_layer + kTensorsBesideBlock);
    const double tensors = of_layer + of_modules + kSmallTensorsOfEnds;
    least.elements = std::min(least.elements, elements);
    least.tensors = std::max(least.tensors, tensors);
    least.stored = smaller(least.stored, stored_bytes(model, layer, shape));
  }
  return least;
}

const LayerBounds::Params& LayerBounds::params(const Mesh& mesh) {
  const auto [found, is_new] = params_.try_emplace({mesh.tp, mesh.ep});
  if (is_new) found->second = least_params(started_.model, least_shape(mesh));
  return found->second;
}

const EndBytes& LayerBounds::ends(const Mesh& mesh) {
  const auto [found, is_new] = ends_.try_emplace({mesh.tp, mesh.ep});
  if (is_new) found->second = end_bytes(started_.model, least_shape(mesh));
  return found->second;
}

// The shape of a rank of a mesh that holds the fewest parameters.
StageShape LayerBounds::least_shape(const Mesh& mesh) const {
  StageShape shape = started_.shape;
  shape.tp = mesh.tp;
  shape.ep = mesh.ep;
  shape.tp_rank = mesh.tp - 1;  // the first tp rank holds at least as much
  return shape;
}

RunPlan LayerBounds::shaped(const LayoutChoice& layout) const {
  RunPlan plan = started_;
  plan.mesh = layout.mesh;
  plan.shape.micro_sequences = layout.micro_sequences;
  plan.shape.recompute = layout.recompute;
  set_exchange(plan.config.parallel, layout.exchange);
  shape_for_mesh(plan);
  return plan;
}

const ActivationBytes& LayerBounds::activations(const LayoutChoice& layout) {
  const auto [found, is_new] = activations_.try_emplace(key(layout));
  if (!is_new) return found->second;
  const auto least = [](const auto& a, const auto& b) { return smaller(a, b); };
  found->second = joined_of<ActivationBytes>(any_of_, layout, least, [&](const auto& one) {
    StageShape shape = shaped(one).shape;
    shape.again = kEverythingAgain;      // "fit" then saves the least
    shape.tp_rank = layout.mesh.tp - 1;  // the first tp rank holds at least as much
    return activation_bytes(started_.model, shape);
  });
  // "fit" may compute fewer values again, whose scratch is smaller.
  ActivationBytes& bytes = found->second;
  if (layout.recompute == Recompute::Fit) bytes.layer_scratch = bytes.head_scratch = 0.0;
  return bytes;
}

LayerBounds::ExchangeTimes LayerBounds::price_exchanges(const LayoutChoice& layout) {
  const RunPlan plan = shaped(layout);
  RankPlan rank;
  rank.shape = plan.shape;
  constexpr double kMost = std::numeric_limits<double>::max();
  ExchangeTimes least{kMost, kMost};
  for (const LayerRun& run : layer_kinds(plan.model)) {
    rank.chunks = {ChunkTables{.stage = {run.first, 1, false, false}}};
    for (OnNodes& nodes : on_nodes_) {
      const auto comm_s = [&](ActionKind kind) {
        return predict_layer_comm(plan, rank, {.kind = kind}, nodes.hardware, nodes.collectives)
            .total();
      };
      least.forward_s = std::min(least.forward_s, comm_s(ActionKind::F));
      least.backward_s = std::min(least.backward_s, comm_s(ActionKind::BW));
    }
  }
  return least;
}

const LayerBounds::ExchangeTimes& LayerBounds::exchanges(const LayoutChoice& layout) {
  const auto [found, is_new] =
      exchanges_.try_emplace({key(layout), spans_of(layout), layout.mesh.size()});
  if (!is_new || started_.config.parallel.pair) return found->second;
  const auto least = [](const ExchangeTimes& a, const ExchangeTimes& b) {
    return ExchangeTimes{std::min(a.forward_s, b.forward_s), std::min(a.backward_s, b.backward_s)};
  };
  const auto in_any_order = [&](LayoutChoice one) {
    return joined_over(meshes_of(one), least, [&](const Mesh& mesh) {
      one.mesh = mesh;
      return price_exchanges(one);
    });
  };
  found->second = joined_of<ExchangeTimes>(any_of_, layout, least, in_any_order);
  return found->second;
}

// Bytes per second of reductions or gathers over dp, in the fastest order that is taken; 0 if no
// bound is known for one of them.
double LayerBounds::dp_bytes_per_s(const LayoutChoice& layout, Orders orders,
                                   bool is_reduction) const {
  if (started_.model.has_experts()) return 0.0;
  double fastest = 0.0;
  for (const Mesh& mesh :
       orders == Orders::Own ? std::vector<Mesh>{layout.mesh} : meshes_of(layout)) {
    const double bytes_per_s = dp_bytes_per_s(mesh, num_shards(layout), is_reduction);
    if (bytes_per_s <= 0.0) return 0.0;
    fastest = std::max(fastest, bytes_per_s);
  }
  return fastest;
}

double LayerBounds::dp_bytes_per_s(const Mesh& mesh, double shards, bool is_reduction) const {
  double fastest = 0.0;
  for (const OnNodes& nodes : on_nodes_) {
    const double bytes_per_s = dp_bytes_per_s(nodes.hardware, mesh, shards, is_reduction);
    if (bytes_per_s <= 0.0) return 0.0;
    fastest = std::max(fastest, bytes_per_s);
  }
  return fastest;
}

// With hybrid sharding a gradient takes two links: a rank scatters all of it among the ranks that
// shard the parameters, and sums its own part with the replicas of these.
double LayerBounds::dp_bytes_per_s(const Hardware& hardware, const Mesh& mesh, double shards,
                                   bool is_reduction) {
  const RankSpan dp = span_of(mesh, MeshAxis::Dp);
  const auto of_shards = int64_t(shards);
  const double near =
      fastest_bytes_per_s(hardware, {of_shards, dp.stride}, VectorMove::ReduceScatter);
  const int64_t replicas = dp.count / of_shards;
  if (!is_reduction || replicas == 1) return near;
  const double far =
      fastest_bytes_per_s(hardware, {replicas, dp.stride * of_shards}, VectorMove::AllReduce);
  const double scattered = 1.0 - 1.0 / shards;
  const double summed = 2.0 * (1.0 - 1.0 / double(replicas)) / shards;
  if (near <= 0.0 || far <= 0.0) return 0.0;
  return (scattered + summed) / (scattered / near + summed / far);
}

// A rank sends every gradient at least once, except those of its own part. Its part is a whole
// number of norm chunks; the last chunk of each tensor is small.
double LayerBounds::reduce_seconds(const LayoutChoice& layout, Orders orders) {
  const double bytes_per_s = dp_bytes_per_s(layout, orders, true);
  const bool may_be_few = keeps_matrices_whole(layout) || started_.model.trains_in_part();
  if (bytes_per_s <= 0.0 || may_be_few) return 0.0;
  const Params& layer = params(layout.mesh);
  const double own = (layer.elements + layer.tensors * double(kNormChunk)) / num_shards(layout);
  const double sent_bytes = std::max(0.0, layer.elements - own) *
                            double(hardware_.practice.bytes_of_grad(started_.shape.grad));
  return sent_bytes / bytes_per_s;
}

// One gather of a layer's parameters. A rank sends its part to each other rank, so the bound takes
// the smallest part.
double LayerBounds::gather_seconds(const LayoutChoice& layout, Orders orders) {
  const double bytes_per_s = dp_bytes_per_s(layout, orders, false);
  if (bytes_per_s <= 0.0 || layout.zero < 1) return 0.0;
  const double others = num_shards(layout) - 1.0;
  const double sent_bytes = others * least_part(layout) * double(size_of(started_.shape.compute));
  return sent_bytes / bytes_per_s;
}

bool LayerBounds::keeps_matrices_whole(const LayoutChoice& layout) const {
  return started_.shape.optimizer_state.muon && num_shards(layout) > 1.0;
}

// The least number of parameters of a layer that a dp rank holds. A part is a whole number of norm
// chunks. With Muon a rank may hold nothing, because matrices are not cut.
double LayerBounds::least_part(const LayoutChoice& layout) {
  if (keeps_matrices_whole(layout)) return 0.0;
  const Params& layer = params(layout.mesh);
  return std::max(0.0,
                  layer.elements / num_shards(layout) - (layer.tensors + 1.0) * double(kNormChunk));
}

double LayerBounds::updated_elements(const LayoutChoice& layout) {
  if (started_.model.trains_in_part()) return 0.0;
  return layout.zero == 0 ? params(layout.mesh).elements : least_part(layout);
}

const LayerBounds::ZeroParts& LayerBounds::zero_parts(const LayoutChoice& layout, Orders orders) {
  if (mesh_of_zero_parts_ != layout.mesh) zero_parts_.clear();
  mesh_of_zero_parts_ = layout.mesh;
  const ZeroKey key(layout.zero, layout.hsdp_shard, offload_of(layout, started_.config), orders);
  for (const auto& [known, parts] : zero_parts_) {
    if (known == key) return parts;
  }
  ZeroParts parts;
  parts.stored_bytes = sharded_bytes(layout, params(layout.mesh).stored);
  parts.update_s = price_update(updated_elements(layout), started_.shape, hardware_);
  parts.reduce_s = reduce_seconds(layout, orders);
  parts.gather_s = gather_seconds(layout, orders);
  return zero_parts_.emplace_back(key, parts).second;
}

double LayerBounds::sharded_bytes(const LayoutChoice& layout, const StoredBytes& stored) const {
  const ZeroShape zero{layout.zero, int(num_shards(layout))};
  const auto part = [&](double bytes, bool is_sharded) {
    return is_sharded ? bytes / zero.degree : bytes;
  };
  const OffloadChoice offload = offload_of(layout, started_.config);
  double bytes = part(stored.grads, zero.shards_grads());
  if (offload != OffloadChoice::All) bytes += part(stored.params, zero.shards_params());
  if (offload == OffloadChoice::None) bytes += part(stored.optimizer, zero.level >= 1);
  return bytes;
}

}  // namespace trireme
