#pragma once

#include <functional>
#include <vector>

namespace trireme {

using Choice = std::vector<int>;  // for every factor the number of its value, below 16

// Selects few of the choices so that every pair of values that occurs in a choice also occurs in a
// selected one, and at least one choice of every group is selected. A group has equal values in the
// factors `group`.
std::vector<Choice> pairwise_cover(std::vector<Choice> choices,
                                   const std::function<bool(const Choice&)>& is_possible,
                                   const std::vector<int>& group = {});

// Returns the number of groups.
int count_groups(const std::vector<Choice>& choices, const std::vector<int>& group);

// Returns every combination of values. `sizes` has the number of values of each factor.
std::vector<Choice> all_choices(const std::vector<int>& sizes,
                                const std::function<bool(const Choice&)>& is_meant);

}  // namespace trireme
