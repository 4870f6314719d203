#pragma once

#include <span>
#include <vector>

#include "base/result.h"

namespace trireme {

// Costs beside the layers: the embedding on the first stage; final norm, head and loss on the last
// stage.
struct EndCosts {
  double first = 0;
  double last = 0;
};

// Returns the number of layers of each stage, in order and at least one each. It minimizes the cost
// of the most expensive stage and, among such splits, the sum of squared costs. The result is
// exact. Infeasible if there are more stages than layers. `factors`, if there are any, say how many
// times the costs each stage takes, [stage].
Result<std::vector<int>> split_layers(std::span<const double> layer_costs, int num_stages,
                                      const EndCosts& ends = {},
                                      std::span<const double> factors = {});

}  // namespace trireme
