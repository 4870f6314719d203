#pragma once

#include <functional>

#include "graph/graph.h"
#include "graph/model_shard.h"

namespace trireme {

// Visits every parameter of a stage that a rank holds, in model order: each once, however many
// units use it, and the experts of this rank alone.
void for_each_param(const ModelSpec& model, const StageSpec& stage, const ModelShard& shard,
                    const std::function<void(const Graph& unit, const Param& param)>& visit);

}  // namespace trireme
