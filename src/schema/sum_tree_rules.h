#pragma once

#include <cstdint>
#include <vector>

#include "schema/config_rules.h"

namespace trireme {

// In the modes "layout" and "mesh" a gradient is one binary tree over the micro-batches of a step,
// and partial sums that ranks exchange must be nodes of that tree. Returns the degrees and batch
// sizes that do not allow this. `num_microbatches` is the number per pipeline and step.
std::vector<ConfigProblem> sum_tree_problems(const RunConfig& config, int64_t num_microbatches);

// Adds these problems to validate() if the batch is set and valid.
void sum_tree_rules(ConfigRules& rules, const RunConfig& config);

}  // namespace trireme
