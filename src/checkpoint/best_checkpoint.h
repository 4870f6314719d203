#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_index.h"

namespace trireme {

// Keys of CheckpointInfo::optimizer_scalars: the last validation loss before the checkpoint in nats
// per token, and the step after which it was measured.
inline constexpr const char* kValidationLoss = "validation_loss";
inline constexpr const char* kValidationStep = "validation_step";

// Returns the validation loss of the state that a checkpoint holds, in nats per token. Returns
// nullopt if this state was not validated.
std::optional<double> validation_loss_of(const CheckpointInfo& info);

struct ValidatedCheckpoint {
  std::string path;
  int64_t step = -1;
  double loss = 0.0;
};

// Returns the checkpoints in `root`, up to the step `last`, whose state was validated. They are
// sorted by loss, lowest first, and by step if losses are equal. Only their indexes are read, so a
// checkpoint in the list may be damaged. Folders without a readable index are left out.
std::vector<ValidatedCheckpoint> validated_checkpoints(const std::string& root,
                                                       int64_t last = INT64_MAX);

}  // namespace trireme
