#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "autoparallel/cluster_stages.h"
#include "autoparallel/plan_search.h"

namespace trireme {

// The units and ranks of a stage, and the micro-batches whose activations it holds at a time.
struct AskedStage {
  int mix = 0;  // of devices (ClusterStages)
  int first_unit = 0, last_unit = 0;
  int num_ranks = 1;
  int in_flight = 1;
};

// Finds the stages of which a plan is made.
struct StageSource {
  std::function<double(const AskedStage&)> seconds;  // of the best one; infinity if none fits
  std::function<std::optional<StagePlan>(const AskedStage&)> best;
  // See PipelineProblem; may be empty.
  std::function<SecondsBounds(const AskedStage&)> bounds = {};
  double tolerance = 0.0;
};
// Stages in which every op chooses its roles. `search` must outlive the source.
StageSource by_op(ClusterStages& search);

// Splits the operators (their first units) into the stages of the source that take the least time.
// `counts_messages`: with one message of each stage in its time. Nullopt if nothing fits.
std::optional<FoundPlan> split_plan(const PlannedRun& run, const ClusterStages& search,
                                    const StageSource& source, const std::vector<int>& operators,
                                    bool counts_messages);

// Returns the plan with the units and ranks of the stages of `plan`, each of which is the best of
// the source. Nullopt if one of them does not fit.
std::optional<FoundPlan> with_stages_of(const PlannedRun& run, const ClusterStages& search,
                                        const StageSource& source, const FoundPlan& plan);

// Bytes of the residual stream of a micro-batch of so many sequences; of images those of the widest
// border between two units.
double message_bytes(const PlannedRun& run, int64_t sequences);

}  // namespace trireme
