#include "graph/absorb.h"

#include <utility>

#include "graph/latent_expansion.h"

namespace trireme {

Graph absorb(Graph fused) {
  return join_latent_expansions(std::move(fused),
                                [](const Op&, const LatentExpansion&) { return true; });
}

}  // namespace trireme
