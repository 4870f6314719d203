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

// One layout of all ops of a stage, and the degrees that it has in a run.
struct RunnableStage {
  StageSearch::Uniform uniform;
  PlaceDegrees degrees;
};

std::optional<RunnableStage> runnable(const StageSearch::Uniform& uniform, const InCommon& common) {
  if (uniform.recompute != common.recompute) return std::nullopt;
  for (const MeshDim& dim : uniform.mesh.dims) {
    if (dim.degree() > 1 && dim.rows != Role::Data) return std::nullopt;
  }
  const std::optional<StageDegrees> stage = degrees_of(uniform.mesh, uniform.roles);
  if (!stage) return std::nullopt;
  const bool shares_rows = common.tensor == Role::SequenceTensor;
  if (stage->degrees.tp > 1 && stage->shares_rows != shares_rows) return std::nullopt;
  return RunnableStage{uniform, stage->degrees};
}

// Stages in each of which all ops have the same roles.
class StagesOfOneRole {
 public:
  StagesOfOneRole(const PlannedRun& run, ClusterStages& search, const InCommon& common)
      : run_(run), search_(search), common_(common) {}

  // The first and the last stage of later answers have these degrees; nullopt: any.
  void fix_ends(std::optional<PlaceDegrees> ends) { ends_ = ends; }

  std::optional<StagePlan> best(const AskedStage& at) {
    std::optional<StagePlan> best;
    const bool has_layers = at.last_unit >= 1 && at.first_unit <= run_.model.layers;
    if (!has_layers) return best;
    const bool is_end = at.first_unit == 0 || at.last_unit + 1 == run_.num_units();
    for (const RunnableStage& layout : layouts(at.num_ranks)) {
      if (is_end && ends_ && layout.degrees != *ends_) continue;
      auto stage =
          search_.uniform_stage(at.mix, layout.uniform, at.first_unit, at.last_unit, at.in_flight);
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
  const std::vector<RunnableStage>& layouts(int num_ranks) {
    const auto [known, is_new] = layouts_.try_emplace(num_ranks);
    if (!is_new) return known->second;
    for (const StageSearch::Uniform& uniform : search_.uniforms(num_ranks)) {
      if (auto layout = runnable(uniform, common_)) known->second.push_back(*layout);
    }
    return known->second;
  }

  const PlannedRun& run_;
  ClusterStages& search_;
  InCommon common_;
  std::optional<PlaceDegrees> ends_;
  std::map<int, std::vector<RunnableStage>> layouts_;  // [ranks]
};

PlaceDegrees degrees_of(const StagePlan& stage) {
  return trireme::degrees_of(stage.mesh, *stage.roles)->degrees;
}

Status refuse_found(const PlannedRun& run, const FoundPlan& plan) {
  TRIREME_TRY(config, runnable_config(plan, run.config, run.hardware));
  return refuse_run(config, run.host);
}

}  // namespace

void add_plans_by_stage(const PlannedRun& run, int64_t sequences, const std::vector<int>& operators,
                        std::vector<FoundPlan>& found) {
  ClusterStages search(run, sequences);
  const auto add = [&](const std::optional<FoundPlan>& plan) {
    const bool runs = plan && refuse_found(run, *plan).ok();
    if (runs) found.push_back(*plan);
    return runs;
  };
  for (const Recompute recompute : run.recomputes) {
    for (const Role tensor : {Role::Tensor, Role::SequenceTensor}) {
      StagesOfOneRole stages(run, search, {recompute, tensor});
      const auto split = [&] { return split_plan(run, search, stages.source(), operators, true); };
      const std::optional<FoundPlan> plan = split();
      if (!plan || add(plan)) continue;
      // A tied table needs equal degrees in the first and the last stage.
      if (!run.model.trains_tied_table()) continue;
      const PlaceDegrees first = degrees_of(plan->stages.front());
      const PlaceDegrees last = degrees_of(plan->stages.back());
      if (first == last) continue;
      for (const PlaceDegrees& ends : {first, last}) {
        stages.fix_ends(ends);
        add(split());
      }
    }
  }
}

}  // namespace trireme
