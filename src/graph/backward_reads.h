#pragma once

#include <vector>

#include "graph/graph.h"

namespace trireme {

// Whether the op has parameters whose gradients W computes.
bool has_weight_grad(const Op& op);

// Which values B or W of an op read, beside the gradients of its outputs.
std::vector<ValueId> read_by_backward(const Op& op);

// Whether B of the unit needs the op's output again, where of all values only the input of the unit
// and the routes of tokens were kept: [op]. The last product on the residual stream is not among
// them, because nothing in the backward pass reads its result.
std::vector<bool> computed_again(const Graph& graph);

}  // namespace trireme
