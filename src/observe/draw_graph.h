#pragma once

#include <span>
#include <string>

#include "graph/graph_text.h"

namespace trireme {

// A picture that needs no other file: ops as boxes in layers from top to bottom, their parameters
// inside, what they write below them, redistributions in a colour of their own. Readable on light
// and dark backgrounds.
std::string draw_graph(const PassView& view, const ModelSpec& model, const StageShape& layout);

// One picture of all units of a model: a row for each unit, its passes side by side, a legend.
std::string draw_units(std::span<const UnitPasses> units, const ModelSpec& model,
                       const StageShape& layout);

// A page with a picture of every unit after each pass and a short explanation; it makes no request.
std::string graph_page(std::span<const UnitPasses> units, const ModelSpec& model,
                       const StageShape& layout, const std::string& name);

}  // namespace trireme
