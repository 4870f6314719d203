#pragma once

#include <vector>

#include "autoparallel/cluster_stages.h"
#include "autoparallel/plan_search.h"

namespace trireme {

// How a uniform layout splits the layers into stages.
enum class LayerSplit : uint8_t {
  Even,     // stages of about equal cost on equal devices
  BySpeed,  // stages of about equal time on the devices that they have
};

// Adds the best uniform layout for micro-batches of this size and every number of stages, if it
// fits.
void add_uniform_plans(const PlannedRun& run, ClusterStages& search, int64_t sequences,
                       LayerSplit split, std::vector<FoundPlan>& found);

}  // namespace trireme
