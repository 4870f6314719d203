#pragma once

#include "graph/graph.h"
#include "schema/stage_shape.h"

namespace trireme {

// The passes that turn the graph of a unit, as its function states it, into what one rank computes:
// leave_whole, stack, ring_of_latents, place, slice; then, for calls and memory, fuse.
Graph placed_graph(Graph stated, const StageShape& layout);
Graph fused_graph(Graph stated, const StageShape& layout);

}  // namespace trireme
