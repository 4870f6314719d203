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

// "layers.5.fc": the name that patterns of parallel.layers are matched with.
std::string layer_name(const Graph& unit, const Op& op);
// Whether the pattern matches this name, or what follows one of its dots.
bool matches_layer(const std::string& pattern, const std::string& layer);

// The strategy of a layer: that of the first rule that matches, or the usual one of its kind.
LayerStrategy strategy_of_layer(const Graph& unit, const Op& op,
                                const std::vector<LayerRule>& rules);

// A pass before `place`: of the layers whose strategy is Data, every rank has all hidden units.
Graph leave_whole(Graph stated, const std::vector<LayerRule>& rules);

// Names the first pattern that matches no layer, the first layer that has no such strategy, or two
// layers that share an axis and differ.
Status check_layer_rules(const ModelSpec& model, const StageShape& layout);

}  // namespace trireme
