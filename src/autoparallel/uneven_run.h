#pragma once

#include <optional>
#include <vector>

#include "autoparallel/plan_search.h"
#include "base/result.h"
#include "schema/mesh.h"

namespace trireme {

// What the ranks of a stage share out, if it is the same for all its ops.
struct StageDegrees {
  PlaceDegrees degrees;
  bool shares_rows = false;      // tp ranks share out the rows of the residual stream, too
  bool has_mlp_of_rows = false;  // and of the layers of the MLP, of which they have all weights
};

// Returns the degrees of a stage all of whose ops have these roles; nullopt if a run cannot have
// the roles.
std::optional<StageDegrees> degrees_of(const StageMesh& mesh, const Roles& roles);

// Returns the configuration that trains by a plan whose stages have degrees of tp and dp and
// numbers of layers of their own (parallel.stage_tp, stage_dp and stage_layers): all ops of a stage
// share out the same, except that a rule of parallel.layers can leave its MLPs whole, and all
// layers compute the same values again. A rank of a stage with fewer
// ranks along dp takes the sequences of a micro-batch one after the other, where the search has
// priced them together. If the plan is none of these, the error says what a run cannot have. Rules
// of the configuration itself are not asked here: see refuse_run.
Result<RunConfig> uneven_config(const FoundPlan& plan, const RunConfig& config);

// Returns the number of layers of each stage, of a model with so many.
std::vector<int> layers_of_stages(const FoundPlan& plan, int64_t num_layers);
// Sets parallel.stage_layers to those of the plan.
void set_stage_layers(RunConfig& config, const FoundPlan& plan);

}  // namespace trireme
