#pragma once

#include <span>
#include <string>

#include "graph/graph_labels.h"
#include "graph/unit_passes.h"

namespace trireme {

// A pass, or the graph before all passes, as texts and pictures name it.
struct PassView {
  std::string_view name;     // "stack"
  std::string_view meaning;  // one sentence
  const Graph& graph;
  const std::vector<ValuePlacement>& placements;  // empty before `place`
  bool changes_graph = true;
  bool is_shown = true;  // in full: the placed graph says how values lie even where none moves
};
// As stated, after `stack`, after `place`, after `slice`.
std::vector<PassView> views_of(const UnitPasses& unit);

// "head"; "layers.0 to layers.2, layers.5, which are alike"
std::string title_of(const UnitPasses& unit);

// One line for each op: name, kind, inputs and outputs with the extents of their axes, parameters
// with theirs, and after `place` how each value lies over the mesh.
std::string graph_text(const Graph& graph, const GraphLabels& labels);

// All units of a model before and after each pass. A pass that leaves a unit as it was is named and
// not listed again.
std::string units_text(std::span<const UnitPasses> units, const ModelSpec& model,
                       const StageShape& layout);

// "rank tp 0, cp 0, ep 0 of tp 2, cp 1, ep 1; a micro-batch of 1 sequence of 64 tokens"
std::string layout_text(const ModelSpec& model, const StageShape& layout);

}  // namespace trireme
