#include "planner/layout_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/align.h"
#include "compile/link_cost.h"
#include "compile/shape_for_mesh.h"
#include "compile/stage_cost.h"
#include "memory/chunk_tables.h"
#include "memory/stage_tables.h"
#include "memory/stage_units.h"
#include "program/make_schedule.h"
#include "schema/norm_chunk.h"

namespace trireme {
namespace {

// Number of norm tensors of the embedding and the head, which may be in one bucket with a layer.
constexpr double kSmallTensorsOfEnds = 4.0;

// Returns where every chunk is placed, without the programs.
Schedule outline(const LayoutChoice& layout) {
  const int chunks = layout.chunks > 0 ? layout.chunks : default_chunks(layout.schedule);
  return {.kind = std::string(name_of(layout.schedule)),
          .num_ranks = layout.mesh.pp,
          .num_chunks = chunks,
          .placement = traits_of(layout.schedule).placement};
}

double unaligned_bytes(const TensorTable& table) {
  double bytes = 0.0;
  for (const TensorSpec& tensor : table.tensors()) bytes += double(tensor.bytes());
  return bytes;
}

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

OffloadChoice offload_of(const LayoutChoice& layout, const RunConfig& configured) {
  return layout.transfers ? layout.transfers->offload : configured.memory.offload;
}

double layers_of(const Schedule& schedule, int rank, const std::vector<StageSpec>& stages) {
  double layers = 0.0;
  for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
    layers += double(stages[size_t(stage_of(schedule, rank, chunk))].num_layers);
  }
  return layers;
}

}  // namespace

Result<const LayoutBounds::Stages*> LayoutBounds::stages(const LayoutChoice& layout,
                                                         int num_stages) {
  const std::tuple key(num_stages, layout.micro_sequences, layout.recompute);
  auto found = stages_.find(key);
  if (found == stages_.end()) {
    RunPlan plan = started_;
    plan.shape.micro_sequences = layout.micro_sequences;
    plan.shape.recompute = layout.recompute;
    found = stages_.emplace(key, split_stages(plan, num_stages)).first;
  }
  if (!found->second.ok()) return found->second.error();
  return &found->second.value();
}

void LayoutBounds::take_any_of(std::vector<LayerExchange> exchanges,
                               std::vector<MeshOrder> orders) {
  any_of_ = std::move(exchanges);
  if (any_order_ == orders) return;
  any_order_ = std::move(orders);
  work_key_.reset();
  even_key_.reset();
  zero_parts_.clear();
}

// Returns the mesh of a layout in every order that is taken.
std::vector<Mesh> LayoutBounds::meshes_of(const LayoutChoice& layout) const {
  if (any_order_.empty()) return {layout.mesh};
  std::vector<Mesh> meshes(any_order_.size(), layout.mesh);
  for (size_t i = 0; i < meshes.size(); ++i) meshes[i].order = any_order_[i];
  return meshes;
}

LayoutBounds::LayerSpans LayoutBounds::spans_of(const LayoutChoice& layout) const {
  LayerSpans spans;
  for (const Mesh& mesh : meshes_of(layout)) {
    spans.push_back({span_of(mesh, MeshAxis::Tp), span_of(mesh, MeshAxis::Cp),
                     mesh.ep_dp() > 1 ? span_of(mesh, MeshAxis::Dp) : RankSpan{}});
  }
  return spans;
}

LayoutBounds::ExchangeKey LayoutBounds::exchange_key(const LayoutChoice& layout) const {
  return any_of_.empty() ? ExchangeKey(layout.exchange) : std::nullopt;
}

LayoutBounds::LayerKey LayoutBounds::layer_key(const LayoutChoice& layout) const {
  const Mesh& mesh = layout.mesh;
  return {
      mesh.tp, mesh.cp, mesh.ep, layout.micro_sequences, layout.recompute, exchange_key(layout)};
}

const UnitPrices& LayoutBounds::price(const LayoutChoice& layout, uint64_t again, OfDevices which) {
  RunPlan plan = shaped(layout);
  plan.shape.again = layout.recompute == Recompute::Fit ? again : 0;  // else it changes nothing
  return which == OfDevices::Fastest ? prices_.of(plan) : prices_.slowest_of(plan);
}

const UnitPrices& LayoutBounds::unit_prices(const LayoutChoice& layout, uint64_t again) {
  const auto [found, is_new] = unit_prices_.try_emplace({layer_key(layout), again});
  if (is_new) {
    found->second = joined_of<UnitPrices>(any_of_, layout, least_prices, [&](const auto& one) {
      return price(one, again, OfDevices::Fastest);
    });
  }
  return found->second;
}

const UnitPrices& LayoutBounds::most_prices(const LayoutChoice& layout) {
  const auto [found, is_new] = most_prices_.try_emplace(layer_key(layout));
  if (is_new) {
    found->second = joined_of<UnitPrices>(any_of_, layout, greatest_prices, [&](const auto& one) {
      return price(one, kEverythingAgain, OfDevices::Slowest);
    });
  }
  return found->second;
}

// Of the kind of layer that has the fewest, and the most tensors.
LayoutBounds::LayerParams LayoutBounds::least_params(const ModelSpec& model,
                                                     const StageShape& shape) {
  constexpr double kMost = std::numeric_limits<double>::max();
  LayerParams least{kMost, 0.0, kMost, kMost, kMost};
  for (const LayerRun& kind : layer_kinds(model)) {
    const StageTables tables = stage_tables(model, {kind.first, 1, false, false}, shape);
    double elements = 0.0;
    for (const TensorSpec& param : tables.params.tensors()) {
      elements += double(param.shape.num_elements());
    }
    const double tensors = double(tables.params.tensors().size()) + kSmallTensorsOfEnds;
    least.elements = std::min(least.elements, elements);
    least.tensors = std::max(least.tensors, tensors);
    least.params_bytes = std::min(least.params_bytes, unaligned_bytes(tables.params));
    least.grads_bytes = std::min(least.grads_bytes, unaligned_bytes(tables.grads));
    least.optimizer_bytes = std::min(least.optimizer_bytes, unaligned_bytes(tables.optimizer));
  }
  return least;
}

const LayoutBounds::LayerParams& LayoutBounds::params_of_layer(const Mesh& mesh) {
  const auto [found, is_new] = params_of_layer_.try_emplace({mesh.tp, mesh.ep});
  if (is_new) {
    StageShape shape = started_.shape;
    shape.tp = mesh.tp;
    shape.ep = mesh.ep;
    shape.tp_rank = mesh.tp - 1;  // the first tp rank holds at least as much
    found->second = least_params(started_.model, shape);
  }
  return found->second;
}

RunPlan LayoutBounds::shaped(const LayoutChoice& layout) const {
  RunPlan plan = started_;
  plan.mesh = layout.mesh;
  plan.shape.micro_sequences = layout.micro_sequences;
  plan.shape.recompute = layout.recompute;
  set_exchange(plan.config.parallel, layout.exchange);
  shape_for_mesh(plan);
  return plan;
}

double LayoutBounds::price_saved_bytes(const LayoutChoice& layout) {
  RunPlan plan = shaped(layout);
  plan.shape.again = kEverythingAgain;      // "fit" then saves the least
  plan.shape.tp_rank = layout.mesh.tp - 1;  // the first tp rank holds at least as much
  double least = std::numeric_limits<double>::max();
  for (const LayerRun& kind : layer_kinds(plan.model)) {
    StageTables tables;
    add_activations(tables, stage_units(plan.model, {kind.first, 1, false, false}, plan.shape),
                    shard_model(plan.model, plan.shape), plan.shape);
    const int64_t of_stage = aligned_bytes(tables.saved.at(kStageOutput).bytes());  // only once
    least = std::min(least, double(tables.saved.bytes() - of_stage));
  }
  return least;
}

double LayoutBounds::layer_saved_bytes(const LayoutChoice& layout) {
  const LayerKey key = layer_key(layout);
  const auto [found, is_new] = layer_saved_bytes_.try_emplace(key, 0.0);
  if (is_new) {
    found->second = joined_of<double>(
        any_of_, layout, [](double a, double b) { return std::min(a, b); },
        [&](const LayoutChoice& one) { return price_saved_bytes(one); });
  }
  return found->second;
}

LayoutBounds::ExchangeTimes LayoutBounds::price_exchanges(const LayoutChoice& layout) {
  const RunPlan plan = shaped(layout);
  RankPlan rank;
  rank.shape = plan.shape;
  constexpr double kMost = std::numeric_limits<double>::max();
  ExchangeTimes least{kMost, kMost};
  for (const LayerRun& run : layer_kinds(plan.model)) {
    rank.chunks = {ChunkTables{.stage = {run.first, 1, false, false}}};
    const auto comm_s = [&](ActionKind kind) {
      return predict_layer_comm(plan, rank, {.kind = kind}, hardware_, collectives_).total();
    };
    least.forward_s = std::min(least.forward_s, comm_s(ActionKind::F));
    least.backward_s = std::min(least.backward_s, comm_s(ActionKind::BW));
  }
  return least;
}

const LayoutBounds::ExchangeTimes& LayoutBounds::layer_exchanges(const LayoutChoice& layout) {
  const auto [found, is_new] =
      layer_exchanges_.try_emplace({layer_key(layout), spans_of(layout), layout.mesh.size()});
  if (!is_new) return found->second;
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
double LayoutBounds::dp_bytes_per_s(const LayoutChoice& layout, Orders orders,
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

// With hybrid sharding a gradient takes two links: a rank scatters all of it among the ranks that
// shard the parameters, and sums its own part with the replicas of these.
double LayoutBounds::dp_bytes_per_s(const Mesh& mesh, double shards, bool is_reduction) const {
  const RankSpan dp = span_of(mesh, MeshAxis::Dp);
  const auto of_shards = int64_t(shards);
  const double near = group_link(hardware_, {of_shards, dp.stride}).bytes_per_s;
  const int64_t replicas = dp.count / of_shards;
  if (!is_reduction || replicas == 1) return near;
  const double far = group_link(hardware_, {replicas, dp.stride * of_shards}).bytes_per_s;
  const double scattered = 1.0 - 1.0 / shards;
  const double summed = 2.0 * (1.0 - 1.0 / double(replicas)) / shards;
  if (near <= 0.0 || far <= 0.0) return 0.0;
  return (scattered + summed) / (scattered / near + summed / far);
}

// A rank sends every gradient at least once, except those of its own part. Its part is a whole
// number of norm chunks; the last chunk of each tensor is small.
double LayoutBounds::reduce_seconds_of_layer(const LayoutChoice& layout, Orders orders) {
  const double bytes_per_s = dp_bytes_per_s(layout, orders, true);
  if (bytes_per_s <= 0.0) return 0.0;
  const LayerParams& params = params_of_layer(layout.mesh);
  const double own = (params.elements + params.tensors * double(kNormChunk)) / num_shards(layout);
  const double sent_bytes = std::max(0.0, params.elements - own) *
                            double(hardware_.practice.bytes_of_grad(started_.shape.grad));
  return sent_bytes / bytes_per_s;
}

bool LayoutBounds::joins_layers(const Mesh& mesh, int64_t bucket_bytes) {
  return params_of_layer(mesh).grads_bytes < double(bucket_bytes);
}

// The most layers that one bucket holds.
double LayoutBounds::layers_of_bucket(const Mesh& mesh) {
  const double layers = double(most_bucket_bytes_) / params_of_layer(mesh).grads_bytes;
  return std::max(1.0, std::floor(layers));
}

// One gather of a layer's parameters. A rank sends its part to each other rank, so the bound takes
// the smallest part.
double LayoutBounds::gather_seconds_of_layer(const LayoutChoice& layout, Orders orders) {
  const double bytes_per_s = dp_bytes_per_s(layout, orders, false);
  if (bytes_per_s <= 0.0 || layout.zero < 1) return 0.0;
  const double others = num_shards(layout) - 1.0;
  const double sent_bytes =
      others * least_part_of_layer(layout) * double(size_of(started_.shape.compute));
  return sent_bytes / bytes_per_s;
}

// Parameters of a layer that every rank of dp holds at least: its part is a whole number of norm
// chunks.
double LayoutBounds::least_part_of_layer(const LayoutChoice& layout) {
  const LayerParams& params = params_of_layer(layout.mesh);
  return std::max(
      0.0, params.elements / num_shards(layout) - (params.tensors + 1.0) * double(kNormChunk));
}

double LayoutBounds::updated_elements_of_layer(const LayoutChoice& layout) {
  return layout.zero == 0 ? params_of_layer(layout.mesh).elements : least_part_of_layer(layout);
}

// A lower bound of OffloadTimes::exposed_s (sim/simulate_offload.h). Every piece of the optimizer's
// state is read and written between the backward pass and the end of the update, so only the update
// hides this. Parameters in the file are read for F and for BW of every micro-batch; the first and
// the last bucket of a chunk may still be there from the action before. At ZeRO levels 1 and 2 the
// gathered parameters are also read and written behind the update, which delays the first reads of
// the next step. All compute of the step may hide both.
double LayoutBounds::file_seconds(const LayoutChoice& layout, const RankWork& own,
                                  double num_microbatches) {
  const OffloadChoice offload = offload_of(layout, started_.config);
  if (offload == OffloadChoice::None || hardware_.offload_bytes_per_s <= 0.0) return 0.0;
  const bool has_params = offload == OffloadChoice::All;
  const double param_bytes = double(size_of(started_.shape.compute));
  const double piece_bytes = double(state_bytes(started_.shape)) + (has_params ? param_bytes : 0.0);
  const double updated = own.layers * updated_elements_of_layer(layout);
  const double pieces_s = 2.0 * updated * piece_bytes / hardware_.offload_bytes_per_s;
  const double exposed_s = std::max(
      0.0, pieces_s - price_update(updated, started_.shape, hardware_, OfDevices::Slowest));
  if (!has_params) return exposed_s;
  const double held =
      layout.zero < 3 ? params_of_layer(layout.mesh).elements : least_part_of_layer(layout);
  const bool writes_gathered = layout.zero == 1 || layout.zero == 2;
  const double moved_layers =
      2.0 * num_microbatches * own.inner_layers + (writes_gathered ? 2.0 * own.layers : 0.0);
  const double units_s = moved_layers * held * param_bytes / hardware_.offload_bytes_per_s;
  return exposed_s + std::max(0.0, units_s - own.compute_s);
}

LayoutBounds::ScheduleKey LayoutBounds::schedule_key(const LayoutChoice& layout,
                                                     uint64_t again) const {
  Mesh mesh = layout.mesh;
  if (!any_order_.empty()) mesh.order = any_order_.front();
  return {mesh,  layout.schedule,     layout.chunks, layout.micro_sequences, layout.recompute,
          again, exchange_key(layout)};
}

Result<const std::vector<LayoutBounds::RankWork>*> LayoutBounds::work(const LayoutChoice& layout,
                                                                      uint64_t again) {
  ScheduleKey key = schedule_key(layout, again);
  if (work_key_ == key) return &work_;
  TRIREME_TRY(found, stages(layout, num_stages(outline(layout))));
  work_ = work_out(layout, *found, again);
  work_key_ = std::move(key);
  return &work_;
}

std::vector<LayoutBounds::RankWork> LayoutBounds::work_out(const LayoutChoice& layout,
                                                           const Stages& stages, uint64_t again) {
  const Mesh& mesh = layout.mesh;
  const UnitPrices& prices = unit_prices(layout, again);
  const UnitPrices& hiding = most_prices(layout);  // they hide the most
  const ExchangeTimes& exchanges = layer_exchanges(layout);
  const int64_t num_microbatches = started_.global_sequences / mesh.dp / layout.micro_sequences;
  const double m = double(num_microbatches);
  std::vector<double> compute_s, backward_compute_s, forward_s, backward_s;
  std::vector<double> forward_before = {0}, backward_before = {0};
  for (auto* seconds : {&compute_s, &backward_compute_s, &forward_s, &backward_s, &forward_before,
                        &backward_before}) {
    seconds->reserve(stages.size() + 1);
  }
  StageTimes times, most;
  const StageSpec* priced = nullptr;
  for (const StageSpec& stage : stages) {
    const bool is_alike =
        priced != nullptr && prices.kinds.size() == 1 && stage.num_layers == priced->num_layers &&
        stage.has_embedding == priced->has_embedding && stage.has_head == priced->has_head;
    if (!is_alike) {
      times = stage_times(prices.of(stage));
      most = stage_times(hiding.of(stage));
      priced = &stage;
    }
    const double layers = double(stage.num_layers);
    compute_s.push_back(most.f_s + most.b_s + most.w_s);
    backward_compute_s.push_back(most.b_s + most.w_s);
    forward_s.push_back(times.f_s + layers * exchanges.forward_s);
    backward_s.push_back(times.b_s + times.w_s + layers * exchanges.backward_s);
    forward_before.push_back(forward_before.back() + forward_s.back());
    backward_before.push_back(backward_before.back() + backward_s.back());
  }
  const Schedule schedule = outline(layout);
  const ScheduleTraits& traits = traits_of(layout.schedule);
  // The ranks that hold one stage share its micro-batches.
  const double own_m = m / traits.param_copies();
  const double of_bucket = layers_of_bucket(mesh);
  std::vector<RankWork> ranks;
  for (int rank = 0; rank < mesh.pp; ++rank) {
    RankWork own{.least_layers = double(started_.model.layers)};
    double busy_s = 0.0, start_s = forward_before.back(), tail_s = backward_before.back();
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
      const size_t stage = size_t(stage_of(schedule, rank, chunk));
      const double num_layers = double(stages[stage].num_layers);
      busy_s += own_m * (forward_s[stage] + backward_s[stage]);
      own.compute_s += own_m * compute_s[stage];
      own.layers += num_layers;
      own.inner_layers += std::max(0.0, num_layers - 2.0 * of_bucket);
      own.least_layers = std::min(own.least_layers, num_layers);
      own.most_backward_s = std::max(own.most_backward_s, backward_compute_s[stage]);
      start_s = std::min(start_s, forward_before[stage]);
      tail_s = std::min(tail_s, backward_before[stage]);
    }
    own.step_s = traits.is_serial ? m * (forward_before.back() + backward_before.back())
                                  : busy_s + start_s + (traits.merges_backward ? tail_s : 0.0);
    const auto alike = std::find_if(ranks.begin(), ranks.end(),
                                    [&](const RankWork& other) { return own.is_alike(other); });
    if (alike == ranks.end()) {
      ranks.push_back(own);
    } else {
      alike->step_s = std::max(alike->step_s, own.step_s);
    }
  }
  return ranks;
}

// If `with_schedule` is false, bounds only the part after the schedule.
Result<double> LayoutBounds::step_s(const LayoutChoice& layout, bool with_schedule,
                                    uint64_t again) {
  TRIREME_TRY(ranks, work(layout, again));
  const int64_t num_microbatches =
      started_.global_sequences / layout.mesh.dp / layout.micro_sequences;
  const double own_m = double(num_microbatches) / traits_of(layout.schedule).param_copies();
  const ZeroParts& zero = zero_parts(layout, with_schedule ? Orders::Taken : Orders::Own);
  // ZeRO levels 2 and 3 reduce every micro-batch.
  const double reduce_s = zero.reduce_s * (layout.zero >= 2 ? own_m : 1.0);
  double step_s = 0.0;
  for (const RankWork& own : *ranks) {
    // Compute hides at most its own time of transfers, and becomes longer by a share of all that it
    // hides. At ZeRO levels 0 and 1 the reductions of a chunk wait for its last gradients, and no
    // compute follows those of the last chunk. At level 3, F and B of each micro-batch gather every
    // layer; the first and the last bucket of a chunk may still be unsharded from the action
    // before. At levels 1 and 2 a layer is gathered once, behind the update, where nothing hides
    // it.
    double link_s = own.layers * reduce_s;
    if (layout.zero == 3) link_s += own.inner_layers * 2.0 * own_m * zero.gather_s;
    double exposed_s = std::max(link_s - own.compute_s, link_s * hardware_.overlap_share);
    if (layout.zero < 2) {
      exposed_s = std::max(exposed_s, own.least_layers * reduce_s - own.most_backward_s);
    }
    if (layout.zero == 1 || layout.zero == 2) exposed_s += own.layers * zero.gather_s;
    const double before_s = with_schedule ? own.step_s : 0.0;
    const double file_s = file_seconds(layout, own, own_m);
    step_s = std::max(step_s, before_s + own.layers * zero.update_s + exposed_s + file_s);
  }
  return step_s * kRounding;
}

Result<double> LayoutBounds::step_s(const LayoutChoice& layout, uint64_t again) {
  return step_s(layout, true, again);
}

double LayoutBounds::even_step_s(const LayoutChoice& layout) {
  LayoutChoice alike = layout;
  alike.schedule = ScheduleKind::OneFOneB;
  alike.chunks = 0;
  ScheduleKey key = schedule_key(alike, 0);
  if (even_key_ == key) return even_step_s_;
  const StageTimes compute = stage_times(unit_prices(layout, 0).of(whole_model(started_.model)));
  const ExchangeTimes& exchanges = layer_exchanges(layout);
  const double exchanges_s =
      double(started_.model.layers) * (exchanges.forward_s + exchanges.backward_s);
  const int64_t num_microbatches =
      started_.global_sequences / layout.mesh.dp / layout.micro_sequences;
  const double all_s = compute.f_s + compute.b_s + compute.w_s + exchanges_s;
  even_step_s_ = double(num_microbatches) * all_s / layout.mesh.pp * kRounding * kRounding;
  even_key_ = std::move(key);
  return even_step_s_;
}

Result<double> LayoutBounds::after_schedule_s(const LayoutChoice& layout) {
  return step_s(layout, false, 0);
}

const LayoutBounds::ZeroParts& LayoutBounds::zero_parts(const LayoutChoice& layout, Orders orders) {
  if (mesh_of_zero_parts_ != layout.mesh) zero_parts_.clear();
  mesh_of_zero_parts_ = layout.mesh;
  const ZeroKey key(layout.zero, layout.hsdp_shard, offload_of(layout, started_.config), orders);
  for (const auto& [known, parts] : zero_parts_) {
    if (known == key) return parts;
  }
  ZeroParts parts;
  parts.stored_bytes = stored_bytes_of_layer(layout);
  parts.update_s = price_update(updated_elements_of_layer(layout), started_.shape, hardware_);
  parts.reduce_s = reduce_seconds_of_layer(layout, orders);
  parts.gather_s = gather_seconds_of_layer(layout, orders);
  return zero_parts_.emplace_back(key, parts).second;
}

// Bytes of parameters, gradients and optimizer state after ZeRO.
double LayoutBounds::stored_bytes_of_layer(const LayoutChoice& layout) {
  const ZeroShape zero{layout.zero, int(num_shards(layout))};
  const auto part = [&](double bytes, bool is_sharded) {
    return is_sharded ? bytes / zero.degree : bytes;
  };
  const LayerParams& layer = params_of_layer(layout.mesh);
  const OffloadChoice offload = offload_of(layout, started_.config);
  double bytes = part(layer.grads_bytes, zero.shards_grads());
  if (offload != OffloadChoice::All) bytes += part(layer.params_bytes, zero.shards_params());
  if (offload == OffloadChoice::None) bytes += part(layer.optimizer_bytes, zero.level >= 1);
  return bytes;
}

NeededBytes LayoutBounds::even_bytes(const LayoutChoice& layout) {
  const int copies = traits_of(layout.schedule).param_copies();
  const double layers = double(started_.model.layers) * copies / layout.mesh.pp;
  const double bytes = zero_parts(layout, Orders::Taken).stored_bytes + layer_saved_bytes(layout);
  const double of_rank = layers * bytes * kRounding;
  return {int64_t(of_rank), int64_t(of_rank * layout.mesh.size())};
}

// Of the ranks with as many layers, only the one that saves the most counts.
LayoutBounds::PipelineBytes LayoutBounds::pipeline_bytes(const LayoutChoice& layout,
                                                         const Stages& stages,
                                                         std::span<const double> saved_bytes) {
  const Schedule schedule = outline(layout);
  PipelineBytes bytes;
  for (int rank = 0; rank < layout.mesh.pp; ++rank) {
    const RankBytes own{layers_of(schedule, rank, stages), saved_bytes[size_t(rank)]};
    bytes.all.layers += own.layers;
    bytes.all.saved_bytes += own.saved_bytes;
    const auto alike =
        std::find_if(bytes.most.begin(), bytes.most.end(),
                     [&](const RankBytes& other) { return own.layers == other.layers; });
    if (alike == bytes.most.end()) {
      bytes.most.push_back(own);
    } else {
      alike->saved_bytes = std::max(alike->saved_bytes, own.saved_bytes);
    }
  }
  return bytes;
}

NeededBytes LayoutBounds::needed(const LayoutChoice& layout, const PipelineBytes& bytes) {
  const double stored = zero_parts(layout, Orders::Taken).stored_bytes;
  double most = 0.0;
  for (const RankBytes& rank : bytes.most) {
    most = std::max(most, rank.layers * stored + rank.saved_bytes);
  }
  const double of_pipeline = bytes.all.layers * stored + bytes.all.saved_bytes;
  const double pipelines = double(layout.mesh.size()) / layout.mesh.pp;
  return {int64_t(most * kRounding), int64_t(of_pipeline * pipelines * kRounding)};
}

Result<NeededBytes> LayoutBounds::bytes(const LayoutChoice& layout,
                                        std::span<const double> saved_bytes) {
  TRIREME_TRY(found, stages(layout, num_stages(outline(layout))));
  return needed(layout, pipeline_bytes(layout, *found, saved_bytes));
}

// Saved bytes of every rank, when as few micro-batches live as the schedule allows. They are the
// same for every ZeRO level, order and choice of memory.offload.
std::vector<double> LayoutBounds::least_saved_bytes(const LayoutChoice& layout,
                                                    const Stages& stages) {
  const Schedule schedule = outline(layout);
  const int64_t m = started_.global_sequences / layout.mesh.dp / layout.micro_sequences;
  const ScheduleShape shape{layout.mesh.pp, int(m)};
  const double saved = layer_saved_bytes(layout);
  std::vector<double> saved_bytes;
  for (int rank = 0; rank < layout.mesh.pp; ++rank) {
    const double live = double(least_live(name_of(layout.schedule), shape, rank));
    saved_bytes.push_back(layers_of(schedule, rank, stages) * live * saved);
  }
  return saved_bytes;
}

Result<const LayoutBounds::PipelineBytes*> LayoutBounds::least_bytes(const LayoutChoice& layout) {
  ScheduleKey key = schedule_key(layout, 0);
  if (bytes_key_ == key) return &least_bytes_;
  TRIREME_TRY(found, stages(layout, num_stages(outline(layout))));
  least_bytes_ = pipeline_bytes(layout, *found, least_saved_bytes(layout, *found));
  bytes_key_ = std::move(key);
  return &least_bytes_;
}

Result<NeededBytes> LayoutBounds::bytes(const LayoutChoice& layout) {
  TRIREME_TRY(least, least_bytes(layout));
  return needed(layout, *least);
}

RecomputeChoice& LayoutBounds::recompute_choice() {
  if (!recompute_choice_) {
    recompute_choice_.emplace(started_, started_.hardware.value_or(nominal_hardware()));
  }
  return *recompute_choice_;
}

uint64_t LayoutBounds::cheapest_again(const LayoutChoice& layout, const NeededBytes& limit) {
  if (layout.recompute != Recompute::Fit) return 0;
  const Result<const Stages*> found = stages(layout, num_stages(outline(layout)));
  return found.ok() ? cheapest_again(layout, limit, least_saved_bytes(layout, *found.value())) : 0;
}

uint64_t LayoutBounds::cheapest_again(const LayoutChoice& layout, const NeededBytes& limit,
                                      std::span<const double> saved_bytes) {
  if (layout.recompute != Recompute::Fit) return 0;
  const Mesh& mesh = layout.mesh;
  const auto [known, is_new] = saved_sets_.try_emplace(layer_key(layout));
  const std::vector<RecomputeChoice::SavedSet>& sets = known->second;
  if (is_new) {
    RunPlan plan = shaped(layout);
    plan.shape.tp_rank = mesh.tp - 1;
    known->second = recompute_choice().cheapest_by_saved_bytes(plan, plan.shape);
  }
  const double least = layer_saved_bytes(layout);
  std::vector<double> more(saved_bytes.size());
  for (const RecomputeChoice::SavedSet& set : sets) {
    const double saved = least + double(set.saved_by_layer - sets.back().saved_by_layer);
    for (size_t rank = 0; rank < more.size(); ++rank) {
      more[rank] = saved_bytes[rank] * (saved / least);
    }
    const Result<NeededBytes> needed = bytes(layout, more);
    if (!needed.ok()) break;
    const bool may_fit = (limit.of_rank == 0 || needed->of_rank <= limit.of_rank) &&
                         (limit.of_all == 0 || needed->of_all <= limit.of_all);
    if (may_fit) return set.again;
  }
  return sets.back().again;
}

}  // namespace trireme
