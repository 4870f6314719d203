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

// This is what all ops of a stage share out. If the layers of the MLP share out whole rows instead,
// a run needs a rule of parallel.layers.
struct StageRoles {
  Roles roles = {};
  bool has_mlp_of_rows = false;
};

bool can_have(const std::vector<Roles>& all, const Roles& roles) {
  return std::find(all.begin(), all.end(), roles) != all.end();
}

// The layers of the MLP of a transformer, which can share out rows while all others share out
// heads, if the residual stream is shared out by rows, too.
constexpr std::string_view kMlp = "mlp";
bool is_of_mlp(const OpRoles& op) { return op.op.substr(0, op.op.find('.')) == kMlp; }

// Returns how the ops of a stage agree with these roles; nullopt if some op has others.
std::optional<StageRoles> agree(const StagePlan& stage, const Roles& roles) {
  Roles rows = roles;
  for (size_t d = 0; d < 2; ++d) {
    if (roles[d] == Role::SequenceTensor) rows[d] = stage.mesh.dims[d].rows;
  }
  StageRoles found{roles};
  for (const PlacedUnits& units : stage.units) {
    for (const OpRoles& op : units.way.ops) {
      if (can_have(op.alike, roles)) continue;
      if (rows == roles || !is_of_mlp(op) || !can_have(op.alike, rows)) return std::nullopt;
      found.has_mlp_of_rows = true;
    }
  }
  if (!found.has_mlp_of_rows) return found;
  // All layers of the MLP share out rows, because two of them share an axis.
  for (const PlacedUnits& units : stage.units) {
    for (const OpRoles& op : units.way.ops) {
      if (is_of_mlp(op) && op.has_matrix && !can_have(op.alike, rows)) return std::nullopt;
    }
  }
  return found;
}

// Returns the roles that all ops of a stage have or could have without any change, or says which
// have others.
Result<StageRoles> roles_of(const StagePlan& stage) {
  if (stage.roles) return StageRoles{*stage.roles};
  std::optional<StageRoles> with_rows;
  constexpr Role kOfRuns[] = {Role::Data, Role::Tensor, Role::SequenceTensor};
  const auto roles_on = [&](const MeshDim& dim) {
    return dim.degree() == 1 ? std::vector<Role>{Role::Whole}
                             : std::vector<Role>(std::begin(kOfRuns), std::end(kOfRuns));
  };
  const bool is_found = !stage.units.front().way.ops.empty();  // by a search
  for (const Role outer : roles_on(stage.mesh.dims[0])) {
    for (const Role inner : roles_on(stage.mesh.dims[1])) {
      if (!is_found || !degrees_of(stage.mesh, Roles{outer, inner})) continue;
      const std::optional<StageRoles> agreed = agree(stage, {outer, inner});
      if (agreed && !agreed->has_mlp_of_rows) return *agreed;
      if (agreed && !with_rows) with_rows = agreed;
    }
  }
  if (with_rows) return *with_rows;
  const Roles& first = stage.units.front().way.roles.front();
  for (const PlacedUnits& units : stage.units) {
    for (const Roles& roles : units.way.roles) {
      if (to_string(roles, stage.mesh) == to_string(first, stage.mesh)) continue;
      return infeasible("has ops with the roles " + to_string(first, stage.mesh) +
                        " and others with " + to_string(roles, stage.mesh) +
                        ", but a run gives all ops of a stage the same roles");
    }
  }
  return StageRoles{first};
}

// True if layers of a model with so many are among the units, and not the embedding or head alone.
bool has_layers(const PlacedUnits& units, int64_t num_layers) {
  return units.first_unit + units.count > 1 && units.first_unit <= num_layers;
}

// Returns what the first layers of the plan compute again.
Recompute first_recompute(const FoundPlan& plan, int64_t num_layers) {
  for (const StagePlan& stage : plan.stages) {
    for (const PlacedUnits& units : stage.units) {
      if (has_layers(units, num_layers)) return units.way.recompute;
    }
  }
  return Recompute::None;
}

// Returns the degrees of a stage, or says what a run cannot have of it.
Result<StageDegrees> degrees_of(const StagePlan& stage, Recompute recompute, int64_t num_layers) {
  TRIREME_TRY(common, roles_of(stage));
  std::optional<StageDegrees> degrees = degrees_of(stage.mesh, common.roles);
  if (!degrees) {
    return infeasible("has ops with the roles " + to_string(common.roles, stage.mesh) +
                      ", and stages with degrees of their own share out whole sequences (data) and "
                      "layers (tensor) alone");
  }
  for (const PlacedUnits& units : stage.units) {
    if (!has_layers(units, num_layers) || units.way.recompute == recompute) continue;
    return infeasible(
        fmt::format("has layers with memory.recompute = {}, and others have {}; a run gives all "
                    "layers the same",
                    name_of(units.way.recompute), name_of(recompute)));
  }
  degrees->has_mlp_of_rows = common.has_mlp_of_rows;
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
  std::optional<bool> shares_rows, has_mlp_of_rows;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Result<StageDegrees> stage =
        degrees_of(plan.stages[s], first_recompute(plan, num_layers), num_layers);
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
    if (has_mlp_of_rows.value_or(stage->has_mlp_of_rows) != stage->has_mlp_of_rows) {
      return infeasible(fmt::format(
          "stage {} and one before it share out layers, but only one of them has an MLP that "
          "shares out rows, and a rule of parallel.layers holds for all stages",
          s));
    }
    has_mlp_of_rows = stage->has_mlp_of_rows;
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
  const bool has_images = reads_images(config.model.family);
  std::vector<int> stage_tp, stage_dp;
  LayoutChoice layout;
  Mesh& mesh = layout.mesh;
  for (size_t s = 0; s < stages.size(); ++s) {
    const PlaceDegrees degrees = stages[s].degrees;
    stage_tp.push_back(degrees.tp);
    stage_dp.push_back(degrees.dp);
    mesh.tp = std::lcm(mesh.tp, degrees.tp);
    mesh.dp = std::lcm(mesh.dp, degrees.dp);
    // Ranks of tp share out images without being told.
    layout.exchange.sequence |= stages[s].shares_rows && !has_images;
    if (has_images && degrees.tp > 1 && !stages[s].shares_rows) {
      return infeasible(fmt::format(
          "stage {} computes all images on every rank of tp, and a run shares them out", s));
    }
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
  layout.recompute = first_recompute(plan, config.model.layers);
  RunConfig runnable = with_layout(config, layout);
  const bool has_mlp_of_rows = std::any_of(
      stages.begin(), stages.end(), [](const StageDegrees& at) { return at.has_mlp_of_rows; });
  if (has_mlp_of_rows) {
    runnable.parallel.layers = {{std::string(kMlp) + ".*", LayerStrategy::Data}};
  }
  runnable.parallel.stage_tp = text_if_different(stage_tp);
  runnable.parallel.stage_dp = text_if_different(stage_dp);
  if (mesh.pp > 1) set_stage_layers(runnable, plan);
  runnable.batch.global_sequences = plan.sequences * plan.num_microbatches;
  runnable.batch.global_tokens = 0;
  return runnable;
}

}  // namespace trireme
