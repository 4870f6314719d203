#pragma once

#include <vector>

#include "program/check.h"
#include "program/rank_plan.h"

namespace trireme {

// In layout mode: follows through the programs of one pipeline, [pp], and the micro-batches of all
// its data-parallel ranks, [pp][dp], which micro-batches a sum of gradients
// holds. The additions of a rank, of data-parallel ranks and of two directions must each join the
// two halves of a node of the one binary tree over the micro-batches of the step. Every gradient is
// the whole tree when Step reads it. Expects programs that keep the other rules of check_ranks.h.
std::vector<Problem> check_sum_tree(const Schedule& schedule,
                                    const std::vector<const RankPlan*>& pipeline,
                                    const std::vector<std::vector<MicrobatchMap>>& microbatches);

}  // namespace trireme
