#pragma once

#include <vector>

#include "graph/graph.h"

namespace trireme {

// Whether the op has parameters whose gradients W computes.
bool has_weight_grad(const Graph& graph, const Op& op);
// Returns true if W of the op reads its input. W of a bias reads only the gradient of the output.
bool weight_grad_reads_input(const Graph& graph, const Op& op);
// Returns true if W of the op reads the gradient of its output. B of attention on latents has
// already made the gradients of its weights; W only adds them.
bool weight_grad_reads_output_grad(const Graph& graph, const Op& op);
// Whether any op of the unit has.
bool has_weight_grad(const Graph& graph);

// Which values B or W of an op read, beside the gradients of its outputs.
std::vector<ValueId> read_by_backward(const Graph& graph, const Op& op);

}  // namespace trireme
