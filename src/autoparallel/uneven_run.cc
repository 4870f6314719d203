#include "autoparallel/uneven_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "planner/layout_choice.h"

namespace trireme {

std::optional<StageDegrees> degrees_of(const StageMesh& mesh, const Roles& roles) {
  StageDegrees stage;
  bool has_whole_rows = false;
  for (size_t d = 0; d < mesh.dims.size(); ++d) {
    const int degree = mesh.dims[d].degree();
    if (degree == 1) continue;
    if (roles[d] == Role::Data) {
      stage.degrees.dp *= degree;
    } else if (roles[d] == Role::Tensor || roles[d] == Role::SequenceTensor) {
      stage.degrees.tp *= degree;
      (roles[d] == Role::Tensor ? has_whole_rows : stage.shares_rows) = true;
    } else {
      return std::nullopt;
    }
  }
  if (has_whole_rows && stage.shares_rows) return std::nullopt;
  return stage;
}

namespace {

// Returns the roles that all ops of a stage have, or says which have others.
Result<Roles> roles_of(const StagePlan& stage) {
  if (stage.roles) return *stage.roles;
  const Roles& first = stage.units.front().way.roles.front();
  for (const PlacedUnits& units : stage.units) {
    for (const Roles& roles : units.way.roles) {
      if (to_string(roles, stage.mesh) == to_string(first, stage.mesh)) continue;
      return infeasible("has ops with the roles " + to_string(first, stage.mesh) +
                        " and others with " + to_string(roles, stage.mesh) +
                        ", but a run gives all ops of a stage the same roles");
    }
  }
  return first;
}

// Returns the degrees of a stage, or says what a run cannot have of it.
Result<StageDegrees> degrees_of(const StagePlan& stage, Recompute recompute) {
  TRIREME_TRY(roles, roles_of(stage));
  const std::optional<StageDegrees> degrees = degrees_of(stage.mesh, roles);
  if (!degrees) {
    return infeasible("has ops with the roles " + to_string(roles, stage.mesh) +
                      ", and stages with degrees of their own share out whole sequences (data) and "
                      "layers (tensor) alone");
  }
  for (const PlacedUnits& units : stage.units) {
    if (units.way.recompute == recompute) continue;
    return infeasible("has units that recompute different values");
  }
  return *degrees;
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

namespace {

// Returns the degrees of all stages, or says what a run cannot have.
Result<std::vector<StageDegrees>> degrees_of(const FoundPlan& plan, int64_t num_layers) {
  const std::vector<int> layers = layers_of_stages(plan, num_layers);
  std::vector<StageDegrees> stages;
  std::optional<bool> shares_rows;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Result<StageDegrees> stage =
        degrees_of(plan.stages[s], plan.stages.front().units.front().way.recompute);
    if (!stage.ok()) return infeasible(fmt::format("stage {} {}", s, stage.error().message));
    if (layers[s] == 0) return infeasible(fmt::format("stage {} has no layer", s));
    stages.push_back(*stage);
    if (stage->degrees.tp == 1) continue;
    if (shares_rows.value_or(stage->shares_rows) != stage->shares_rows) {
      return infeasible(fmt::format(
          "stage {} and one before it share out layers, but only one of them also the rows of the "
          "residual stream (tensor+sequence)",
          s));
    }
    shares_rows = stage->shares_rows;
  }
  return stages;
}

// "1,2", or "" if all are the same.
std::string text_if_different(const std::vector<int>& degrees) {
  const bool are_equal =
      std::adjacent_find(degrees.begin(), degrees.end(), std::not_equal_to()) == degrees.end();
  return are_equal ? "" : with_commas(degrees);
}

}  // namespace

Result<RunConfig> uneven_config(const FoundPlan& plan, const RunConfig& config) {
  TRIREME_TRY(stages, degrees_of(plan, config.model.layers));
  std::vector<int> stage_tp, stage_dp;
  LayoutChoice layout;
  Mesh& mesh = layout.mesh;
  for (size_t s = 0; s < stages.size(); ++s) {
    const PlaceDegrees degrees = stages[s].degrees;
    stage_tp.push_back(degrees.tp);
    stage_dp.push_back(degrees.dp);
    mesh.tp = std::lcm(mesh.tp, degrees.tp);
    mesh.dp = std::lcm(mesh.dp, degrees.dp);
    layout.exchange.sequence |= stages[s].shares_rows;
    for (const PlacedUnits& units : plan.stages[s].units) {
      if (degrees.dp > 1) layout.zero = std::max(layout.zero, zero_level_of(units.way.sharding));
    }
  }
  if (plan.sequences % mesh.dp != 0) {
    return infeasible(fmt::format("{} sequences of a micro-batch do not split into {} parts",
                                  plan.sequences, mesh.dp));
  }
  mesh.pp = int(plan.stages.size());
  mesh.order = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Dp, MeshAxis::Pp};
  layout.micro_sequences = plan.sequences / mesh.dp;
  layout.recompute = plan.stages.front().units.front().way.recompute;
  RunConfig runnable = with_layout(config, layout);
  runnable.parallel.stage_tp = text_if_different(stage_tp);
  runnable.parallel.stage_dp = text_if_different(stage_dp);
  set_stage_layers(runnable, plan);
  runnable.batch.global_sequences = plan.sequences * plan.num_microbatches;
  runnable.batch.global_tokens = 0;
  return runnable;
}

}  // namespace trireme
