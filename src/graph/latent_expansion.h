#pragma once

#include <functional>

#include "graph/graph.h"

namespace trireme {

// What makes the keys and values of an attention from one value, the latent: the product that makes
// keys without positions and values, and the op that joins the keys with the part that all heads
// share.
struct LatentExpansion {
  const Op* product = nullptr;
  const Op* concat = nullptr;
  explicit operator bool() const { return product != nullptr; }
};

// Returns nothing if the keys and values come from elsewhere.
LatentExpansion latent_expansion(const Graph& graph, const Op& attention);

// Every attention whose expansion `takes` accepts becomes one op on the latent and the shared part
// (OpKind::LatentAttention), which has the parameters of the product. The graph is stacked.
Graph join_latent_expansions(
    Graph graph, const std::function<bool(const Op& attention, const LatentExpansion&)>& takes);

}  // namespace trireme
