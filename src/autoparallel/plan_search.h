#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autoparallel/stage_search.h"
#include "base/result.h"

namespace trireme {

// A plan of a whole run: stages, each on a mesh of its own with roles of its own, under 1F1B.
struct FoundPlan {
  int64_t sequences = 1;  // of a micro-batch, over the ranks of a stage
  int64_t num_microbatches = 1;
  std::vector<StagePlan> stages;
  double formula_s = 0.0;  // sum of the stages + (micro-batches - 1) x the slowest
  double step_s = 0.0;     // of the simulated schedule, sums of gradients and update included
  // The layout of today with the same roles everywhere, where the plan is one.
  std::optional<StageSearch::Uniform> uniform = {};
};

struct PlanSearch {
  FoundPlan best;
  // Layouts of today, priced alike: the best one for every size of a micro-batch and number of
  // stages, the fastest first.
  std::vector<FoundPlan> uniforms;
  int num_operators = 0;         // into which the units were clustered
  int num_microbatch_sizes = 0;  // that were tried
};

// Finds the plan of the least step: for every size of a micro-batch the best split into stages,
// and of these the one whose simulated schedule ends first. Infeasible, with the constraint that
// binds and what would relax it, if nothing fits.
Result<PlanSearch> search_plan(const PlannedRun& run);

// Sequences of a micro-batch that the search tries: divisors of the global batch.
std::vector<int64_t> microbatch_sizes(const PlannedRun& run);
// Ranks that a stage may have: powers of two inside a node, and whole nodes. On more than
// kMostRanksInParts ranks, whole nodes alone, and powers of two of them.
std::vector<int> mesh_sizes(const PlannedRun& run);
inline constexpr int kMostRanksInParts = 128;
// Operators into which the units are clustered at most.
inline constexpr int kMostOperators = 32;
// Slowest stages that differ by less are not both tried.
inline constexpr double kSlowestStageGap = 0.002;

// The first unit of every operator, of about equal work.
std::vector<int> operators_of(const PlannedRun& run);

// Simulates 1F1B on the stages and fills in formula_s and step_s.
void simulate_plan(const PlannedRun& run, FoundPlan& plan);

}  // namespace trireme
