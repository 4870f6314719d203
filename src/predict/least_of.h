#pragma once

#include <functional>
#include <vector>

namespace trireme {

// Returns the point near `start` at which `value` is least, found by the simplex method of Nelder
// and Mead (The Computer Journal, 1965).
std::vector<double> least_of(const std::function<double(const std::vector<double>&)>& value,
                             std::vector<double> start, int max_evaluations);

}  // namespace trireme
