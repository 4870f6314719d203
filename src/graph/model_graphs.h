#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "schema/model_spec.h"

namespace trireme {

// The graphs of a model, one for each unit, as their formulas read. Everything else that a stage
// needs is derived from them, once `stack` has joined their products: parameters, placements, sums
// of gradients, FLOPs, transfers.
// The first unit, whatever it reads, is named "embedding".
Graph embedding_graph(const ModelSpec& model);
Graph layer_graph(const ModelSpec& model, int64_t layer);
// A head whose weight is the table of the embedding has a parameter of the embedding's name.
// The unit also has the modules of multi-token prediction (ModelSpec::mtp_depth).
Graph head_graph(const ModelSpec& model);
// Returns the prefix of all names of the module that looks `depth` positions ahead: "mtp.0." for 1.
std::string module_prefix(int64_t depth);

// Visits the units of a stage in the order of F, each passed through `pass` before. Layers that
// compute the same (layer_runs) are built and passed once: the graph of the first, for which
// `is_new` is true, is visited under the names of the others.
void for_each_unit(const ModelSpec& model, const StageSpec& stage,
                   const std::function<Graph(Graph)>& pass,
                   const std::function<void(const Graph& unit, bool is_new)>& visit);

// The same as a list.
std::vector<Graph> stage_graphs(const ModelSpec& model, const StageSpec& stage,
                                const std::function<Graph(Graph)>& pass);

inline constexpr std::string_view kTokenTable = "embedding.tokens";

}  // namespace trireme
