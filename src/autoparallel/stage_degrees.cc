#include "autoparallel/stage_degrees.h"

#include <map>
#include <utility>

#include "autoparallel/split_plan.h"

namespace trireme {
namespace {

// These choices are the same for all stages of a run.
struct InCommon {
  Recompute recompute = Recompute::None;
  Role tensor = Role::Tensor;  // or SequenceTensor
};

bool can_run(const StageSearch::Uniform& uniform, const InCommon& common) {
  if (uniform.recompute != common.recompute) return false;
  for (size_t d = 0; d < uniform.roles.size(); ++d) {
    const MeshDim& dim = uniform.mesh.dims[d];
    if (dim.degree() == 1) continue;
    const bool is_shared_out = uniform.roles[d] == Role::Data || uniform.roles[d] == common.tensor;
    if (dim.rows != Role::Data || !is_shared_out) return false;
  }
  return true;
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
    for (const StageSearch::Uniform& uniform : layouts(at.num_ranks)) {
      auto stage =
          search_.uniform_stage(at.mix, uniform, at.first_unit, at.last_unit, at.in_flight);
      if (stage && (!best || stage->seconds < best->seconds)) best = std::move(stage);
    }
    return best;
  }

 private:
  const std::vector<StageSearch::Uniform>& layouts(int num_ranks) {
    const auto [known, is_new] = layouts_.try_emplace(num_ranks);
    if (!is_new) return known->second;
    for (const StageSearch::Uniform& uniform : search_.uniforms(num_ranks)) {
      if (can_run(uniform, common_)) known->second.push_back(uniform);
    }
    return known->second;
  }

  const PlannedRun& run_;
  ClusterStages& search_;
  InCommon common_;
  std::map<int, std::vector<StageSearch::Uniform>> layouts_;  // [ranks]
};

}  // namespace

void add_plans_by_stage(const PlannedRun& run, int64_t sequences, const std::vector<int>& operators,
                        std::vector<FoundPlan>& found) {
  ClusterStages search(run, sequences);
  for (const Recompute recompute : run.recomputes) {
    for (const Role tensor : {Role::Tensor, Role::SequenceTensor}) {
      StagesOfOneRole stages(run, search, {recompute, tensor});
      const StageSource source{[&](const AskedStage& at) {
                                 const std::optional<StagePlan> stage = stages.best(at);
                                 return stage ? stage->seconds : kImpossible;
                               },
                               [&](const AskedStage& at) { return stages.best(at); }};
      if (auto plan = split_plan(run, search, source, operators, true)) {
        found.push_back(std::move(*plan));
      }
    }
  }
}

}  // namespace trireme
