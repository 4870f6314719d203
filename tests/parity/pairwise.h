#pragma once

#include <functional>
#include <vector>

namespace trireme {

using Choice = std::vector<int>;  // the number of a value of every factor, below 16

// Few of the choices, with every pair of values beside each other that some possible choice has,
// and with one choice at least of every group: those that are alike in the factors `group`.
std::vector<Choice> pairwise_cover(std::vector<Choice> choices,
                                   const std::function<bool(const Choice&)>& is_possible,
                                   const std::vector<int>& group = {});

// How many groups the choices have.
int count_groups(const std::vector<Choice>& choices, const std::vector<int>& group);

// Every combination of values of factors that have so many.
std::vector<Choice> all_choices(const std::vector<int>& sizes,
                                const std::function<bool(const Choice&)>& is_meant);

}  // namespace trireme
