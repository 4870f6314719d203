#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autoparallel/stage_search.h"
#include "base/result.h"

namespace trireme {

// A plan of a whole run: 1F1B over stages, each on a mesh of its own and with roles of its own.
struct FoundPlan {
  int64_t sequences = 1;  // of a micro-batch, over the ranks of a stage
  int64_t num_microbatches = 1;
  std::vector<StagePlan> stages;
  double formula_s = 0.0;  // sum of the stages + (micro-batches - 1) x the slowest
  double step_s = 0.0;     // of the simulated schedule, sums of gradients and update included
  // The uniform layout, if the plan has one: the same mesh and roles in all stages.
  std::optional<StageSearch::Uniform> uniform = {};
  // True if the stages of the uniform layout have more layers the faster their devices are. Else
  // layers are split by their cost alone, as a run does that is told nothing else.
  bool has_layers_by_speed = false;

  // True if a run that is told only degrees has this plan.
  bool is_uniform() const { return uniform && !has_layers_by_speed; }
};

struct PlanSearch {
  FoundPlan best;
  // Plans of uniform layouts in the same prices: the best one for every size of a micro-batch and
  // number of stages, the fastest first.
  std::vector<FoundPlan> uniforms;
  // On a mixed cluster the same with layers by the speed of the devices.
  std::vector<FoundPlan> by_speed = {};
  // Plans that a run can have whose stages have degrees of tp and dp and layers of their own, for
  // the sizes of micro-batches of the best plan by op and of the best uniform one; the fastest
  // first.
  std::vector<FoundPlan> by_stage = {};
  int num_operators = 0;         // into which the units were clustered
  int num_microbatch_sizes = 0;  // that were tried
};

// Finds the plan with the shortest step. For every size of a micro-batch it finds the best split
// into stages, and of these it takes the one whose simulated schedule ends first. If nothing fits,
// the error names the constraint that binds and what would relax it.
Result<PlanSearch> search_plan(const PlannedRun& run);

// Returns the numbers of sequences of a micro-batch that the search tries: divisors of the global
// batch.
std::vector<int64_t> microbatch_sizes(const PlannedRun& run);
// A micro-batch has at most so many sequences for each rank of the run. An image is one row of the
// head, whose kernels are slow with few rows.
inline constexpr int64_t kMostSequencesOfRank = 4, kMostImagesOfRank = 64;
// Returns the numbers of ranks that a stage may have somewhere: powers of two inside a node, and
// whole nodes. If the run has more than kMostRanksInParts ranks, a stage has 1, 2, 4, ... whole
// nodes.
std::vector<int> mesh_sizes(const PlannedRun& run);
// True if a stage may have so many ranks from `first_rank` on, one of mesh_sizes(): where nodes
// have several sizes, it lies on nodes of one size and has a number of ranks that goes with this
// size.
bool may_lie(const PlannedRun& run, int first_rank, int num_ranks);
inline constexpr int kMostRanksInParts = 128;
// The units are clustered into at most so many operators.
inline constexpr int kMostOperators = 32;
// See PipelineProblem::gap.
inline constexpr double kSlowestStageGap = 0.002;

// Clusters the units into operators of about equal work. Returns the first unit of each.
std::vector<int> operators_of(const PlannedRun& run);

// Simulates 1F1B on the stages and fills in formula_s and step_s.
void simulate_plan(const PlannedRun& run, FoundPlan& plan);

}  // namespace trireme
