#pragma once

#include <optional>
#include <vector>

namespace trireme {

// A unit of a model, in order: how much it computes, and what crosses the border before it.
struct UnitWork {
  double work = 0.0;            // seconds or FLOPs
  double received_bytes = 0.0;  // from the unit before
};

// Joins neighbouring units into `num_operators` operators (Zheng et al. 2022, section 5.2): none
// has more than (1 + slack) times the mean work; of those clusterings it takes one in which the
// greatest border has the fewest bytes, and of those one of the most even work. Returns the first
// unit of every operator, or nullopt if no clustering keeps the slack.
std::optional<std::vector<int>> cluster_units(const std::vector<UnitWork>& units, int num_operators,
                                              double slack);

}  // namespace trireme
