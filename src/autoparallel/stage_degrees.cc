#include "autoparallel/stage_degrees.h"

#include <map>
#include <utility>

#include "autoparallel/planned_run.h"
#include "autoparallel/split_plan.h"
#include "autoparallel/uneven_run.h"

namespace trireme {
namespace {

// These choices are the same for all stages of a run.
struct InCommon {
  Recompute recompute = Recompute::None;
  Role tensor = Role::Tensor;  // or SequenceTensor
};

bool is_runnable(const StageSearch::Uniform& uniform, const InCommon& common) {
  if (uniform.recompute != common.recompute) return false;
  for (const MeshDim& dim : uniform.mesh.dims) {
    if (dim.degree() > 1 && dim.rows != Role::Data) return false;
  }
  const std::optional<StageDegrees> stage = degrees_of(uniform.mesh, uniform.roles);
  if (!stage) return false;
  const bool shares_rows = common.tensor == Role::SequenceTensor;
  return stage->degrees.tp <= 1 || stage->shares_rows == shares_rows;
}

// Stages in each of which all ops have the same roles.
class StagesOfOneRole {
 public:
  StagesOfOneRole(const PlannedRun& run, ClusterStages& search, const InCommon& common)
      : run_(run), search_(search), common_(common) {}

  std::optional<StagePlan> best(const AskedStage& at) {
    std::optional<StagePlan> best;
    const bool has_layers = at.last_unit >= 1 && at.first_unit <= run_.model.layers;
    if (!has_layers) return best;
    for (const StageSearch::Uniform& layout : layouts(at.num_ranks)) {
      auto stage = search_.uniform_stage(at.mix, layout, at.first_unit, at.last_unit, at.in_flight);
      if (stage && (!best || stage->seconds < best->seconds)) best = std::move(stage);
    }
    return best;
  }

  StageSource source() {
    return {[this](const AskedStage& at) {
              const std::optional<StagePlan> stage = best(at);
              return stage ? stage->seconds : kImpossible;
            },
            [this](const AskedStage& at) { return best(at); }};
  }

 private:
  const std::vector<StageSearch::Uniform>& layouts(int num_ranks) {
    const auto [known, is_new] = layouts_.try_emplace(num_ranks);
    if (!is_new) return known->second;
    for (const StageSearch::Uniform& uniform : search_.uniforms(num_ranks)) {
      if (is_runnable(uniform, common_)) known->second.push_back(uniform);
    }
    return known->second;
  }

  const PlannedRun& run_;
  ClusterStages& search_;
  InCommon common_;
  std::map<int, std::vector<StageSearch::Uniform>> layouts_;  // [ranks]
};

Status refuse_found(const PlannedRun& run, const FoundPlan& plan) {
  TRIREME_TRY(config, runnable_config(plan, run.config, run.hardware));
  return refuse_run(config, run.host);
}

}  // namespace

void add_plans_by_stage(const PlannedRun& run, int64_t sequences, const std::vector<int>& operators,
                        std::vector<FoundPlan>& found) {
  ClusterStages search(run, sequences);
  for (const Recompute recompute : run.recomputes) {
    for (const Role tensor : {Role::Tensor, Role::SequenceTensor}) {
      StagesOfOneRole stages(run, search, {recompute, tensor});
      const auto plan = split_plan(run, search, stages.source(), operators, true);
      if (plan && refuse_found(run, *plan).ok()) found.push_back(*plan);
    }
  }
}

}  // namespace trireme
