#pragma once

#include <string>

#include "graph/param_table.h"

namespace trireme {

// Returns the model that generates. Its experts have no capacity, so a token does not depend on
// those beside it, and no module looks ahead.
ModelSpec generating_model(ModelSpec model);

// Returns the ops that generation computes of a unit: fused, on latents where there are any, and
// without the loss, so that the head ends with what the last product reads.
Graph decoder_graph(Graph unit, const StageShape& shape);

// Returns the name of the matrix that makes the logits: the head's own, or the token table.
std::string head_param(const ModelSpec& model);

}  // namespace trireme
