#pragma once

#include <functional>

#include "graph/graph.h"
#include "graph/model_shard.h"

namespace trireme {

// Visits every parameter of a stage that a rank holds, in model order: each once, with the first of
// the units that use it, and the experts of this rank alone. `unit` counts the units of the stage.
void for_each_param(
    const ModelSpec& model, const StageSpec& stage, const ModelShard& shard,
    const std::function<void(int unit, const Graph& graph, const Param& param)>& visit);

}  // namespace trireme
