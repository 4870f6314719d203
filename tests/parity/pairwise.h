#pragma once

#include <functional>
#include <vector>

namespace trireme {

using Selection = std::vector<int>;  // the number of a value of every factor, below 16

// Selects few of the choices so that every pair of values that occurs in a choice also occurs in a
// selected one, and at least one choice of every group is selected. A group has equal values in the
// factors `group`.
std::vector<Selection> pairwise_cover(std::vector<Selection> choices,
                                      const std::function<bool(const Selection&)>& is_possible,
                                      const std::vector<int>& group = {});

// Returns the number of groups.
int count_groups(const std::vector<Selection>& choices, const std::vector<int>& group);

// Returns every combination of values. `sizes` has the number of values of each factor.
std::vector<Selection> all_choices(const std::vector<int>& sizes,
                                   const std::function<bool(const Selection&)>& is_meant);

}  // namespace trireme
