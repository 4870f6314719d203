#pragma once

#include <vector>

#include "planner/search_layout.h"

namespace trireme {

// A price is no closer to what a step takes than this part of it.
inline constexpr double kNearTie = 0.02;

// Of layouts, fastest first: those that are at most kNearTie slower than the fastest of them are in
// the order of their peaks, then of what tp, cp and pp split; then the same of the rest.
void order_near_ties(std::vector<PricedLayout>& layouts);

}  // namespace trireme
