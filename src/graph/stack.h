#pragma once

#include "graph/graph.h"

namespace trireme {

// Joins linear ops of one module ("attn.") that read the same value into one op with several
// outputs: one product makes q, k and v. Their weights, and their biases, come to lie side by side
// in memory. Everything else keeps its order.
Graph stack(Graph graph);

}  // namespace trireme
