#pragma once

#include <vector>

#include "graph/graph.h"
#include "schema/model_spec.h"

namespace trireme {

// Floating-point operations per token, of a training step (forward, dX and dW; no recomputation)
// where nothing else is said.
struct ModelFlops {
  // 6 per weight of every matrix that multiplies, the head included; 4 where it is frozen.
  double matmul = 0.0;
  // Causal: a query sees (seq_len + 1) / 2 keys on average, or the `document_keys` below. An
  // indexer that chooses keys counts, too.
  double attention = 0.0;
  double total() const { return matmul + attention; }
};
// [op] those of the forward pass alone, whether the graph is fused or not.
std::vector<ModelFlops> forward_flops(const Graph& unit, const ModelSpec& model);
// `document_keys`: StageShape::document_keys.
ModelFlops flops_per_token(const Graph& unit, const ModelSpec& model, double document_keys = 0.0);
ModelFlops model_flops_per_token(const ModelSpec& model, double document_keys = 0.0);

}  // namespace trireme
