#pragma once

#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/param_layout.h"
#include "schema/stage_shape.h"

namespace trireme {

// Checks the placed units of a stage in their order. Every op finds its inputs in a placement that
// one of its strategies needs, every addend is summed exactly once, and the layouts say of every
// parameter's gradient which ranks have addends of it. The first violation names value, mesh axis
// and op.
Status check_placed(const std::vector<Graph>& units, const std::vector<ParamLayout>& layouts,
                    const StageShape& layout);

// The same for the graphs of a stage on every tp rank, and that the ranks' parts make up every
// parameter.
Status check_placements(const ModelSpec& model, const StageSpec& stage, StageShape shape);

}  // namespace trireme
