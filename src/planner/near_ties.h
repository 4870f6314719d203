#pragma once

#include <vector>

#include "planner/search_layout.h"

namespace trireme {

// Relative error of a predicted step time: closer predictions cannot be told apart.
inline constexpr double kNearTie = 0.02;

// Reorders layouts that are sorted by step time. Layouts that are at most kNearTie slower than the
// fastest one form a group; a group is sorted by allocated memory, then by tp * cp * pp. The next
// group begins with the first layout after it.
void order_near_ties(std::vector<PricedLayout>& layouts);

}  // namespace trireme
