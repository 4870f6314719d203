#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/load.h"

namespace trireme {

// Opens a checkpoint. `path` is one of these:
// - the folder of a checkpoint
// - a run directory, or the folder of its checkpoints: opens the newest intact one
// - RUN_DIR/best: opens the checkpoint with the lowest validation loss (best_checkpoint.h)
// - a name for `open_input`, such as store://NAME/RUN/checkpoints/step-000100
Result<Checkpoint> find_checkpoint(const std::string& path, const OpenInput& open_input = {});

// Returns true if the path is RUN_DIR/best for a run directory, and no file or folder has this
// name.
bool names_best_checkpoint(const std::string& path);

// Returns true if the folder has folders of steps, as RUN_DIR/checkpoints does.
bool has_checkpoints(const std::string& folder);

}  // namespace trireme
