#pragma once

#include <span>
#include <vector>

#include "base/result.h"

namespace trireme {

// Costs beside the layers: the embedding on the first stage; final norm, head, loss and modules
// that look ahead on the last stage.
struct EndCosts {
  double first = 0;
  double last = 0;
  bool last_needs_layer = true;  // false: the last stage may have nothing but its end
};

// Returns the number of layers of each stage, in order and at least one each, except for a last one
// that needs none. It minimizes the cost of the most expensive stage and, among such splits, the
// sum of squared costs. The result is exact. Infeasible if there are fewer layers than stages that
// need one. `factors`, if there are any, say how many times the costs each stage takes, [stage].
Result<std::vector<int>> split_layers(std::span<const double> layer_costs, int num_stages,
                                      const EndCosts& ends = {},
                                      std::span<const double> factors = {});

}  // namespace trireme
