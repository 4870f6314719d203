#pragma once

#include <functional>
#include <vector>

namespace trireme {

using Selection = std::vector<int>;  // the number of a value of every factor, below 16

// Few of the choices, with every pair of values beside each other that some possible choice has,
// and with one choice at least of every group: those that are alike in the factors `group`.
std::vector<Selection> pairwise_cover(std::vector<Selection> choices,
                                   const std::function<bool(const Selection&)>& is_possible,
                                   const std::vector<int>& group = {});

// How many groups the choices have.
int count_groups(const std::vector<Selection>& choices, const std::vector<int>& group);

// Every combination of values of factors that have so many.
std::vector<Selection> all_choices(const std::vector<int>& sizes,
                                const std::function<bool(const Selection&)>& is_meant);

}  // namespace trireme
