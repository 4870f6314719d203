#pragma once

#include <functional>
#include <vector>

namespace trireme {

using Choice = std::vector<int>;  // the number of a value of every factor, below 16

// Few of the choices, with every pair of values beside each other that some possible choice has.
std::vector<Choice> pairwise_cover(std::vector<Choice> choices,
                                   const std::function<bool(const Choice&)>& is_possible);

// Every combination of values of factors that have so many.
std::vector<Choice> all_choices(const std::vector<int>& sizes,
                                const std::function<bool(const Choice&)>& is_meant);

}  // namespace trireme
