#pragma once

#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "train/engine.h"
#include "train/trainer.h"

namespace trireme {

// A run as a checkpoint: parameters in fp32 under their own names (the masters, where parameters
// are kept in bf16), the optimizer's moments, and the position. It can be continued in any
// precision, by any layout.
// The pieces are those that this rank writes.
std::vector<TensorPiece> checkpoint_pieces(const Engine& engine);
CheckpointInfo checkpoint_info(const RunPlan& plan, const TrainPosition& position,
                               const std::string& data_identity);

// Writes a checkpoint with all ranks of the engine's world and returns its path on all of them.
// Nothing older is removed. `root` is rank 0's: where to, or why there is no such place.
Result<std::string> save_run(Engine& engine, const Result<std::string>& root,
                             const CheckpointInfo& info, const std::vector<AttachedFile>& attached);

// Reads parameters and optimizer state into the engine and returns where the run stands. Called by
// all ranks.
Result<TrainPosition> restore(const Checkpoint& checkpoint, const RunPlan& plan, Engine& engine);

// The parameters alone, converted to the frame's dtype, for generation.
Status load_params(const Checkpoint& checkpoint, const std::vector<ParamSpec>& params,
                   const Frame& frame, int num_threads);

}  // namespace trireme
