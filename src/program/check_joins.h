#pragma once

#include <vector>

#include "program/check.h"
#include "program/rank_plan.h"

namespace trireme {

// The rules "tied" and "directions" of check_ranks.h for one of the ranks.
std::vector<Problem> check_joins(const Schedule& schedule, const Mesh& mesh,
                                 const std::vector<RankPlan>& ranks, const RankPlan& rank);

}  // namespace trireme
