#pragma once

#include <span>
#include <vector>

#include "base/result.h"

namespace trireme {

// What stands beside the layers: the embedding on the first stage, final norm, head and loss on the
// last.
struct EndCosts {
  double first = 0;
  double last = 0;
};

// Layers per stage, in order and at least one each, so that the dearest stage is as cheap as can be
// and, among such splits, the sum of squares is least. Exact. Infeasible: more stages than layers.
Result<std::vector<int>> split_layers(std::span<const double> layer_costs, int num_stages,
                                      const EndCosts& ends = {});

}  // namespace trireme
