#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/save.h"
#include "compile/run_plan.h"
#include "program/rank_plan.h"

namespace trireme {

// The pieces that a rank writes to a checkpoint, without their data: for each owned part of a
// parameter that no other rank writes, the master (`compute` is its dtype if it has none) and the
// moments.
std::vector<TensorPiece> planned_pieces(const RankPlan& rank, DType compute);

// How many bytes such a rank holds of every checkpoint in memory (StateShard::bytes).
int64_t planned_shard_bytes(const RankPlan& rank, DType compute);

// What a rank of this run needs in the memory of its host for its checkpoints there: the newest
// one, and the one that is being made (MemorySaver). 0: the run has none. Parity of other hosts
// comes on top.
int64_t memory_checkpoint_bytes(const RunPlan& plan, const RankPlan& rank);

}  // namespace trireme
