#include "planner/layout_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compile/link_cost.h"
#include "compile/stage_cost.h"
#include "compile/step_price.h"
#include "planner/schedule_outline.h"
#include "program/make_schedule.h"

namespace trireme {
void LayoutBounds::take_any_of(std::vector<LayerExchange> exchanges,
                               std::vector<MeshOrder> orders) {
  if (!layers_.take_any_of(std::move(exchanges), std::move(orders))) return;
  work_key_.reset();
  even_key_.reset();
}

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

bool LayoutBounds::joins_layers(const Mesh& mesh, int64_t bucket_bytes) {
  return layers_.params(mesh).stored.grads < double(bucket_bytes);
}

// The most layers that one bucket holds.
double LayoutBounds::layers_of_bucket(const Mesh& mesh) {
  const double layers = double(most_bucket_bytes_) / layers_.params(mesh).stored.grads;
  return std::max(1.0, std::floor(layers));
}

// A lower bound of OffloadTimes::added_s (sim/simulate_offload.h). Every piece of the optimizer's
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
  const double updated = own.layers * layers_.updated_elements(layout);
  const double read_s = 1.0 / hardware_.offload_bytes_per_s;
  const double write_s = 1.0 / hardware_.offload_write_speed();
  const double pieces_s = updated * piece_bytes * (read_s + write_s);
  const double exposed_s = std::max(
      0.0, pieces_s - price_update(updated, started_.shape, hardware_, OfDevices::Slowest));
  if (!has_params) return exposed_s;
  const double held =
      layout.zero < 3 ? layers_.params(layout.mesh).elements : layers_.least_part(layout);
  const bool writes_gathered = layout.zero == 1 || layout.zero == 2;
  const double written_layers = writes_gathered ? own.layers : 0.0;
  const double read_layers = 2.0 * num_microbatches * own.inner_layers + written_layers;
  const double units_s = (read_layers * read_s + written_layers * write_s) * held * param_bytes;
  return exposed_s + std::max(0.0, units_s - own.compute_s);
}

LayoutBounds::ScheduleKey LayoutBounds::schedule_key(const LayoutChoice& layout,
                                                     uint64_t again) const {
  return {layers_.first_mesh_of(layout), layout.schedule,  layout.chunks,
          layout.micro_sequences,        layout.recompute, again,
          layers_.exchange_key(layout)};
}

Result<const LayoutBounds::PipelineWork*> LayoutBounds::work(const LayoutChoice& layout,
                                                             uint64_t again) {
  ScheduleKey key = schedule_key(layout, again);
  if (work_key_ == key) return &work_;
  TRIREME_TRY(found, stages(layout, num_stages(schedule_outline(layout))));
  work_ = work_out(layout, *found, again);
  if (hardware_.is_mixed()) {
    work_.on_devices_s = on_devices_s(layout, *found, again, work_.waits_s);
  }
  work_key_ = std::move(key);
  return &work_;
}

LayoutBounds::PipelineWork LayoutBounds::work_out(const LayoutChoice& layout, const Stages& stages,
                                                  uint64_t again) {
  const Mesh& mesh = layout.mesh;
  const UnitPrices& prices = layers_.unit_prices(layout, again);
  const UnitPrices& hiding = layers_.most_prices(layout);  // they hide the most
  const LayerBounds::ExchangeTimes& exchanges = layers_.exchanges(layout);
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
  const Schedule schedule = schedule_outline(layout);
  const ScheduleTraits& traits = traits_of(layout.schedule);
  // The ranks that hold one stage share its micro-batches.
  const double own_m = m / traits.param_copies();
  const double of_bucket = layers_of_bucket(mesh);
  PipelineWork pipeline;
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
    const double waits_s = start_s + (traits.merges_backward ? tail_s : 0.0);
    own.step_s =
        traits.is_serial ? m * (forward_before.back() + backward_before.back()) : busy_s + waits_s;
    pipeline.waits_s.push_back(traits.is_serial ? 0.0 : waits_s);
    const auto alike = std::find_if(pipeline.ranks.begin(), pipeline.ranks.end(),
                                    [&](const RankWork& other) { return own.is_alike(other); });
    if (alike == pipeline.ranks.end()) {
      pipeline.ranks.push_back(own);
    } else {
      alike->step_s = std::max(alike->step_s, own.step_s);
    }
  }
  return pipeline;
}

// Returns for each place of the pipeline how long a rank on this device computes and exchanges.
std::vector<double> LayoutBounds::busy_seconds(int device, const LayoutChoice& layout,
                                               const Stages& stages, uint64_t again) {
  const UnitPrices& prices = layers_.prices_on(device, layout, again);
  const LayerBounds::ExchangeTimes& exchanges = layers_.exchanges(layout);
  const double exchange_s = exchanges.forward_s + exchanges.backward_s;
  const Schedule schedule = schedule_outline(layout);
  const int64_t m = started_.global_sequences / layout.mesh.dp / layout.micro_sequences;
  const double own_m = double(m) / traits_of(layout.schedule).param_copies();
  std::vector<double> busy_s(size_t(layout.mesh.pp), 0.0);
  for (int rank = 0; rank < layout.mesh.pp; ++rank) {
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
      const StageSpec& stage = stages[size_t(stage_of(schedule, rank, chunk))];
      const StageTimes times = stage_times(prices.of(stage));
      busy_s[size_t(rank)] +=
          own_m * (times.f_s + times.b_s + times.w_s + double(stage.num_layers) * exchange_s);
    }
  }
  return busy_s;
}

// Returns whether a rank at a place of the pipeline has a device: [device * pp + place].
const std::vector<bool>& LayoutBounds::devices_of_places(const Mesh& mesh) {
  const auto [found, is_new] =
      devices_of_places_.try_emplace({mesh.size(), mesh.pp, span_of(mesh, MeshAxis::Pp).stride});
  if (is_new) {
    found->second.resize(size_t(hardware_.num_devices()) * size_t(mesh.pp));
    for (int position = 0; position < mesh.size(); ++position) {
      const int device = hardware_.device_of(position);
      found->second[size_t(device * mesh.pp + coords_of(mesh, position).pp)] = true;
    }
  }
  return found->second;
}

// The other ranks of a pipeline may have the fastest device, so waits_s comes from work_out().
double LayoutBounds::on_devices_s(const LayoutChoice& layout, const Stages& stages, uint64_t again,
                                  const std::vector<double>& waits_s) {
  std::vector<double> of_device;  // [device * pp + place]
  for (int device = 0; device < hardware_.num_devices(); ++device) {
    const std::vector<double> busy_s = busy_seconds(device, layout, stages, again);
    for (size_t place = 0; place < busy_s.size(); ++place) {
      of_device.push_back(busy_s[place] + waits_s[place]);
    }
  }
  double least_s = std::numeric_limits<double>::max();
  for (const Mesh& mesh : layers_.meshes_of(layout)) {
    const std::vector<bool>& has = devices_of_places(mesh);
    double slowest_s = 0.0;
    for (size_t i = 0; i < of_device.size(); ++i) {
      if (has[i]) slowest_s = std::max(slowest_s, of_device[i]);
    }
    least_s = std::min(least_s, slowest_s);
  }
  return least_s;
}

// If `with_schedule` is false, bounds only the part after the schedule.
Result<double> LayoutBounds::step_s(const LayoutChoice& layout, bool with_schedule,
                                    uint64_t again) {
  TRIREME_TRY(pipeline, work(layout, again));
  const int64_t num_microbatches =
      started_.global_sequences / layout.mesh.dp / layout.micro_sequences;
  const double own_m = double(num_microbatches) / traits_of(layout.schedule).param_copies();
  const LayerBounds::ZeroParts& zero = layers_.zero_parts(
      layout, with_schedule ? LayerBounds::Orders::Taken : LayerBounds::Orders::Own);
  // ZeRO levels 2 and 3 reduce every micro-batch.
  const double reduce_s = zero.reduce_s * (layout.zero >= 2 ? own_m : 1.0);
  double step_s = 0.0;
  double least_after_s = std::numeric_limits<double>::max();
  for (const RankWork& own : pipeline->ranks) {
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
    const double after_s = own.layers * zero.update_s + exposed_s + file_s;
    step_s = std::max(step_s, before_s + after_s);
    least_after_s = std::min(least_after_s, after_s);
  }
  // Which rank is the slowest on its device is not known here, so it updates the least.
  if (with_schedule) step_s = std::max(step_s, pipeline->on_devices_s + least_after_s);
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
  const StageTimes compute =
      stage_times(layers_.unit_prices(layout, 0).of(whole_model(started_.model)));
  const LayerBounds::ExchangeTimes& exchanges = layers_.exchanges(layout);
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

}  // namespace trireme
