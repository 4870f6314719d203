#include "graph/all_passes.h"

#include <utility>

#include "graph/fuse.h"
#include "graph/latent_ring.h"
#include "graph/layer_strategy.h"
#include "graph/place.h"
#include "graph/slice.h"
#include "graph/stack.h"

namespace trireme {

Graph placed_graph(Graph stated, const StageShape& layout) {
  Graph stacked = stack(leave_whole(std::move(stated), layout.layers));
  return slice(place(ring_of_latents(std::move(stacked), layout), layout), layout);
}

Graph fused_graph(Graph stated, const StageShape& layout) {
  return fuse(placed_graph(std::move(stated), layout));
}

}  // namespace trireme
