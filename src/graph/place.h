#pragma once

#include <vector>

#include "graph/graph.h"
#include "schema/stage_shape.h"

namespace trireme {

// How the input of a unit is given, and how its output must lie: token ids and losses are the same
// on all tp ranks. Everything between is the residual stream, or hidden units between two dense
// layers, of which each rank has a part.
ValuePlacement input_placement(const Graph& graph, const StageShape& layout);
ValuePlacement output_placement(const Graph& graph, const StageShape& layout);

// Inserts a redistribution wherever an op needs a value in another placement than it has. A value
// is redistributed once for all ops that need it in that placement. Every value says its placement
// then.
Graph place(const Graph& graph, const StageShape& layout);

}  // namespace trireme
