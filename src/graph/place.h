#pragma once

#include <vector>

#include "graph/graph.h"
#include "spec/stage_shape.h"

namespace trireme {

// How a value lies over the ranks of every axis inside a unit.
struct ValuePlacement {
  Placement tp;
  Placement cp = Placement::shard(0);  // every rank has tokens of its own
  Placement ep = Placement::shard(0);
  Placement& on(MeshAxis axis) {
    return axis == MeshAxis::Tp ? tp : axis == MeshAxis::Cp ? cp : ep;
  }
  Placement on(MeshAxis axis) const {
    return axis == MeshAxis::Tp ? tp : axis == MeshAxis::Cp ? cp : ep;
  }
  friend bool operator==(const ValuePlacement&, const ValuePlacement&) = default;
};

// How the input of a unit is given, and how its output must lie: token ids and losses are the same
// on all tp ranks, everything between is the residual stream.
ValuePlacement input_placement(const Graph& graph, const StageShape& layout);
ValuePlacement output_placement(const Graph& graph, const StageShape& layout);

// Inserts a redistribution wherever an op needs a value in another placement than it has. A value
// is redistributed once for all ops that need it in that placement.
Graph place(const Graph& graph, const StageShape& layout);

}  // namespace trireme
