#pragma once

#include "graph/graph.h"
#include "schema/stage_shape.h"

namespace trireme {

// run.reproducible = "mesh": cuts every sum over an axis that the tp ranks share out into the
// slices of the layout (LayerSlices), and says so in Op::slices. A slice is summed by itself, and
// slices are added along one tree, so the sum has the same bits whatever tp is. Where the layout
// has no slices, the graph stays as it is.
Graph slice(Graph placed, const StageShape& layout);

}  // namespace trireme
