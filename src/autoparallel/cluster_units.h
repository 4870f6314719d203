#pragma once

#include <optional>
#include <vector>

namespace trireme {

// A unit of a model: how much it computes, and how many bytes it receives from the unit before it.
struct UnitWork {
  double work = 0.0;            // seconds or FLOPs
  double received_bytes = 0.0;  // from the unit before
};

// Joins neighbouring units into `num_operators` operators (Zheng et al. 2022, section 5.2): none
// has more than (1 + slack) times the mean work. Of these clusterings it takes one whose largest
// border has the fewest bytes, and of those the one whose work is the most even. Returns the first
// unit of every operator, or nullopt if no clustering keeps the slack.
std::optional<std::vector<int>> cluster_units(const std::vector<UnitWork>& units, int num_operators,
                                              double slack);

}  // namespace trireme
