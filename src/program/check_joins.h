#pragma once

#include <vector>

#include "program/check.h"
#include "program/rank_plan.h"

namespace trireme {

// The rules "tied" and "directions" of check_ranks.h for one rank of a pipeline, [pp].
std::vector<Problem> check_joins(const Schedule& schedule,
                                 const std::vector<const RankPlan*>& pipeline,
                                 const RankPlan& rank);

}  // namespace trireme
