#pragma once

#include "graph/graph.h"
#include "schema/model_spec.h"

namespace trireme {

// The graphs of the units of a net of images (schema/image_net.h). The first unit reads bytes of
// images; the head reads images or features.
Graph first_image_graph(const ModelSpec& model);
Graph block_graph(const ModelSpec& model, int64_t layer, const std::string& unit);
Graph image_head_graph(const ModelSpec& model);

}  // namespace trireme
