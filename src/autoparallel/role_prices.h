#pragma once

#include <vector>

#include "autoparallel/cluster_stages.h"
#include "autoparallel/plan_search.h"

namespace trireme {

// What a stage would cost if one op of its units of one kind had these roles. The mesh, the
// placement of the residual stream and all other kinds of units stay as they are in the plan; the
// other ops of the unit, what it computes again and its sharding are chosen anew for the roles.
struct RolePrice {
  Roles roles = {};
  bool is_chosen = false;  // by the plan
  // A micro-batch takes so long in the fastest such stage that fits; infinity if none fits.
  double stage_s = kImpossible;
  // A rank needs them in that stage. If none fits, they are the fewest of any such stage.
  double bytes = kImpossible;
  // They are those of the op in that stage: its kernels, and its redistributions, gathers and sums
  // of gradients with the update, as a share of the step.
  double compute_s = 0.0, communication_s = 0.0;
};

// Returns the prices of all roles that the ops of `stage.units[unit]` can have: [group][roles], the
// chosen ones first, then the fastest. `search` finds stages for the micro-batches of the plan, and
// the stage begins at `first_rank`.
std::vector<std::vector<RolePrice>> role_prices(ClusterStages& search, const StagePlan& stage,
                                                int first_rank, size_t unit);

// The prices of all ops of a stage: [kind of units][group][roles].
using StageRolePrices = std::vector<std::vector<std::vector<RolePrice>>>;
// Returns those of all stages of a plan.
std::vector<StageRolePrices> role_prices(const PlannedRun& run, const FoundPlan& plan);

}  // namespace trireme
