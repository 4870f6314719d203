#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/place.h"
#include "schema/model_spec.h"
#include "schema/stage_shape.h"

namespace trireme {

// The graph of a unit before and after each pass.
struct UnitPasses {
  std::vector<std::string> names;  // the units of the model that have this graph
  Graph stated;                    // as the function of the unit writes it
  Graph stacked;
  Graph placed;
  Graph sliced;
  std::vector<ValuePlacement> placements;  // [value of placed, and of sliced]
};

// Every kind of unit of a model once: the embedding, the layers that differ, the head.
std::vector<UnitPasses> unit_passes(const ModelSpec& model, const StageShape& layout);

// How the values of a placed graph lie, by the strategies of its ops.
std::vector<ValuePlacement> placements_of(const Graph& placed, const StageShape& layout);

}  // namespace trireme
