#include "autoparallel/uneven_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "planner/layout_choice.h"
#include "schema/model_spec.h"

namespace trireme {
namespace {

bool shares_sequences_alone(const StagePlan& stage, const Roles& roles) {
  for (size_t d = 0; d < stage.mesh.dims.size(); ++d) {
    if (stage.mesh.dims[d].degree() > 1 && roles[d] != Role::Data) return false;
  }
  return true;
}

// Says what a run cannot have of a stage, or "".
std::string refusal_of(const StagePlan& stage, Recompute recompute) {
  for (const PlacedUnits& units : stage.units) {
    for (const Roles& roles : units.way.roles) {
      if (shares_sequences_alone(stage, roles)) continue;
      return "has an op with the roles " + to_string(roles, stage.mesh) +
             ", and stages with degrees of their own share out whole sequences alone (data)";
    }
    if (units.way.recompute != recompute) return "has units that recompute different values";
  }
  return "";
}

std::string with_commas(const std::vector<int>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

}  // namespace

std::vector<int> layers_of_stages(const FoundPlan& plan, int64_t num_layers) {
  std::vector<int> layers;
  for (const StagePlan& stage : plan.stages) {  // units are the embedding, the layers and the head
    const int64_t begin = std::max<int64_t>(stage.first_unit, 1);
    const int64_t end = std::min<int64_t>(stage.first_unit + stage.num_units, num_layers + 1);
    layers.push_back(int(std::max<int64_t>(0, end - begin)));
  }
  return layers;
}

void set_stage_layers(RunConfig& config, const FoundPlan& plan) {
  config.parallel.stage_layers = with_commas(layers_of_stages(plan, config.model.layers));
}

Result<RunConfig> uneven_config(const FoundPlan& plan, const RunConfig& config) {
  const Recompute recompute = plan.stages.front().units.front().way.recompute;
  const std::vector<int> stage_layers = layers_of_stages(plan, config.model.layers);
  std::vector<int> stage_dp;
  int64_t lanes = 1;
  LayoutChoice layout;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    const std::string refusal = refusal_of(stage, recompute);
    if (!refusal.empty()) return infeasible(fmt::format("stage {} {}", s, refusal));
    stage_dp.push_back(stage.mesh.num_ranks());
    if (stage_layers[s] == 0) return infeasible(fmt::format("stage {} has no layer", s));
    lanes = std::lcm(lanes, int64_t{stage.mesh.num_ranks()});
    for (const PlacedUnits& units : stage.units) {
      if (stage.mesh.num_ranks() == 1) continue;
      layout.zero = std::max(layout.zero, zero_level_of(units.way.sharding));
    }
  }
  ModelSpec model = with_defaults(config.model, 0);
  model.frozen = config.optim.frozen;
  const bool is_tied = model.trains_tied_table();
  if (is_tied && stage_dp.front() != stage_dp.back()) {
    return infeasible(
        fmt::format("the first and the last stage hold the table of a tied head, and they have {} "
                    "and {} ranks",
                    stage_dp.front(), stage_dp.back()));
  }
  if (plan.sequences % lanes != 0) {
    return infeasible(fmt::format("{} sequences of a micro-batch do not split into {} parts",
                                  plan.sequences, lanes));
  }
  layout.mesh.pp = int(plan.stages.size());
  layout.mesh.dp = int(lanes);
  layout.mesh.order = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Dp, MeshAxis::Pp};
  layout.micro_sequences = plan.sequences / lanes;
  layout.recompute = recompute;
  RunConfig runnable = with_layout(config, layout);
  runnable.parallel.stage_dp = with_commas(stage_dp);
  set_stage_layers(runnable, plan);
  runnable.batch.global_sequences = plan.sequences * plan.num_microbatches;
  runnable.batch.global_tokens = 0;
  return runnable;
}

}  // namespace trireme
