#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/model_shard.h"
#include "graph/op_work.h"
#include "schema/trainer_practice.h"

namespace trireme {

// Returns for every op of a placed layer the share of its forward pass that another trainer runs
// again with recompute = "full" or "selective".
std::vector<double> shares_of_whole_layer(const Graph& placed, bool stops_early);
std::vector<double> shares_of_every_other_product(const Graph& placed, const ModelShard& shard);

// PyTorch without a compiler runs one kernel for every operation. Adds the bytes and the launches
// of those that a trainer runs where ours is a single kernel.
void run_ops_apart(const Graph& placed, const ModelShard& shard, const StageShape& shape,
                   const TrainerPractice& practice, std::vector<OpWork>& works);

}  // namespace trireme
