#include "compile/stage_cost.h"

#include <algorithm>

#include "memory/stage_tables.h"
#include "program/split_layers.h"

namespace trireme {
namespace {

WorkShare share_of(const ModelSpec& model, int64_t num_layers, bool has_head) {
  const double layer = double(model.qkv_width() + model.q_width() + model.active_mlp_width());
  const double head = double(model.vocab_size);
  const double own = double(num_layers) * layer + (has_head ? head : 0.0);
  return {own / (double(model.layers) * layer + head), double(num_layers) / double(model.layers)};
}

}  // namespace

WorkShare share_of(const ModelSpec& model, const StageSpec& stage) {
  return share_of(model, stage.num_layers, stage.has_head);
}

WorkShare share_of(const ModelSpec& model, const StageSpec& stage, const Action& action) {
  const int units = num_units(stage);
  const int end = action.num_units == 0 ? units : action.first_unit + action.num_units;
  int64_t num_layers = 0;
  bool has_head = false;
  for (int unit = action.first_unit; unit < end; ++unit) {
    const bool is_embedding = stage.has_embedding && unit == 0;
    const bool is_head = stage.has_head && unit == units - 1;
    has_head = has_head || is_head;
    if (!is_embedding && !is_head) ++num_layers;
  }
  return share_of(model, num_layers, has_head);
}

StageTimes stage_times(const ComputeCost& whole, const WorkShare& share, const Mesh& mesh) {
  const double split = double(mesh.tp) * mesh.cp;
  const double matmul_s = share.matmul * whole.matmul_s;
  const double backward_s = 2.5 * whole.attention_s + whole.touch_s + whole.recompute_s;
  return {.f_s = (matmul_s + share.layers * (whole.attention_s + whole.touch_s)) / split,
          .b_s = (matmul_s + share.layers * backward_s) / split,
          .w_s = (matmul_s + share.layers * whole.touch_s) / split};
}

Hardware nominal_hardware() { return assumed_hardware({1.0, 1.0}); }

Result<std::vector<StageSpec>> split_stages(const RunPlan& plan, int num_stages) {
  const ComputeCost whole = price_compute(plan, nominal_hardware());
  const auto cost = [&](int64_t num_layers, bool has_head) {
    const StageTimes times = stage_times(whole, share_of(plan.model, num_layers, has_head), {});
    return times.f_s + times.b_s + times.w_s;
  };
  const std::vector<double> layers(size_t(plan.model.layers), cost(1, false));
  TRIREME_TRY(counts, split_layers(layers, num_stages, {.first = 0.0, .last = cost(0, true)}));
  std::vector<StageSpec> stages;
  int64_t first_layer = 0;
  for (int stage = 0; stage < num_stages; ++stage) {
    stages.push_back({first_layer, counts[size_t(stage)], stage == 0, stage == num_stages - 1});
    first_layer += counts[size_t(stage)];
  }
  return stages;
}

Costs pipeline_costs(const RunPlan& plan, const std::vector<StageSpec>& stages,
                     const Hardware& hardware) {
  const ComputeCost whole = price_compute(plan, hardware);
  Costs costs;
  costs.stages.clear();
  for (const StageSpec& stage : stages) {
    costs.stages.push_back(stage_times(whole, share_of(plan.model, stage), plan.mesh));
  }
  const Link inside{hardware.inside_node.latency_s, hardware.inside_node.bytes_per_s};
  const Link between{hardware.between_nodes.latency_s, hardware.between_nodes.bytes_per_s};
  costs.link = inside;
  if (between.bytes_per_s > 0.0) {
    const int ranks_per_node = std::max(hardware.ranks_per_node, 1);
    costs.link_of = [inside, between, ranks_per_node, mesh = plan.mesh](int from, int to) {
      const auto node = [&](int pp) { return position_of(mesh, {.pp = pp}) / ranks_per_node; };
      return node(from) == node(to) ? inside : between;
    };
  }
  const StageTables tables = stage_tables(plan.model, stages.front(), plan.shape);
  costs.message_bytes = double(tables.saved.at("y_TC").bytes());
  return costs;
}

}  // namespace trireme
