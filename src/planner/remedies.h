#pragma once

#include <vector>

#include "schema/run_config.h"

namespace trireme {

// Settings that may shorten what a step loses, one change of the configuration each. None of them
// changes the model or the batch of a step. Some may be refused; only their prices say which one
// helps.

// Against the bubble of a pipeline: other schedules, smaller micro-batches, fewer stages.
std::vector<RunConfig> changes_against_idle(const RunConfig& config);

// Against transfers of one axis (predict/predict.h, kTrafficAxes) that nothing hides.
std::vector<RunConfig> changes_against_exposed(const RunConfig& config, std::string_view axis,
                                               int ranks_per_node);

// Against a stage that computes longer than the others: stages of other sizes.
std::vector<RunConfig> changes_against_uneven_stages(const RunConfig& config);

}  // namespace trireme
