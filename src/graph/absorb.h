#pragma once

#include "graph/graph.h"

namespace trireme {

// For generation: attention whose keys and values are products of one value, the latent, becomes
// one op on the latent itself, so that a cache need not hold anything else of a token. The products
// are made with queries and outputs instead. `fused`: for one rank, without a backward pass.
Graph absorb(Graph fused);

}  // namespace trireme
