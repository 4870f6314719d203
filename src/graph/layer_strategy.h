#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "schema/model_spec.h"
#include "schema/stage_shape.h"

namespace trireme {

// How the tp ranks share out the layers of a model (StageShape::layers). A layer is an op with a
// matrix of weights: a convolution, a product or the head.

// Returns the name that patterns of parallel.layers are matched with, such as "layers.5.fc".
std::string layer_name(const Graph& unit, const Op& op);
std::string layer_name(const Graph& unit, std::string name);
// True if the pattern matches this name or what follows one of its dots.
bool matches_layer(const std::string& pattern, const std::string& layer);

// Returns the strategy of a layer: that of the first rule that matches, or the usual one of its op.
LayerStrategy strategy_of_layer(const Graph& unit, const Op& op,
                                const std::vector<LayerRule>& rules);

// True if the tp ranks share out the rows of the images of this unit, because its convolutions have
// the strategy Spatial; and the same of the unit that makes its input.
bool cuts_image_rows(const Graph& unit, const std::vector<LayerRule>& rules);
bool input_has_cut_rows(const Graph& unit, const std::vector<LayerRule>& rules);

// A pass before `place`. In layers whose strategy is Data it marks the hidden units
// (Dim::is_whole), so that every tp rank has all of them.
Graph leave_whole(Graph stated, const std::vector<LayerRule>& rules);

// Returns an error that names the first pattern that matches no layer, the first layer that does
// not have its strategy, or two layers that share an axis or a unit and have different strategies.
Status check_layer_rules(const ModelSpec& model, const StageShape& layout);

}  // namespace trireme
