#pragma once

#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "train/engine.h"
#include "train/train_position.h"

namespace trireme {

// The state of a run as a checkpoint: parameters in fp32 under their own names (the masters if
// parameters are stored in bf16), the optimizer's moments, and the position. It can be loaded in
// any precision and any layout.
// checkpoint_pieces returns the pieces that this rank writes.
std::vector<TensorPiece> checkpoint_pieces(const Engine& engine);
CheckpointInfo checkpoint_info(const RunPlan& plan, const TrainPosition& position,
                               const std::string& data_identity);

// Whether a checkpoint has adapters (model.lora_rank).
bool has_adapters(const Checkpoint& checkpoint);

// What this rank reads of a checkpoint, with or without adapters, to restore the engine.
std::vector<TensorRequest> restore_requests(const Engine& engine, bool has_adapters = true);

// Reads parameters and optimizer state into the engine and returns the position of the run.
// Adapters that the checkpoint lacks get their initial values. All ranks call it.
Result<TrainPosition> restore(const Checkpoint& checkpoint, const RunPlan& plan, Engine& engine);

// Reads the parameters, but not the moments, into the engine for an evaluation. All ranks call it.
Status restore_params(const Checkpoint& checkpoint, const RunPlan& plan, Engine& engine);

// Reads only the parameters and converts them to the frame's dtype, for generation.
Status load_params(const Checkpoint& checkpoint, const std::vector<ParamSpec>& params,
                   const Frame& frame, int num_threads);

}  // namespace trireme
