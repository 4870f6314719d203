#pragma once

#include <vector>

#include "program/check.h"
#include "program/rank_plan.h"

namespace trireme {

// For layout mode: tracks which micro-batches each sum of gradients holds, through the programs of
// one pipeline, [pp], and the micro-batches of all its data-parallel ranks, [pp][dp]. Every
// addition, by a rank, across data-parallel ranks or of two directions, must join the two halves of
// a node of the one binary tree over the micro-batches of the step. When Step reads a gradient it
// must be the whole tree. The programs must pass the other rules of check_ranks.h.
std::vector<Problem> check_sum_tree(const Schedule& schedule,
                                    const std::vector<const RankPlan*>& pipeline,
                                    const std::vector<std::vector<MicrobatchMap>>& microbatches);

}  // namespace trireme
