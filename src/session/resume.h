#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "comm/world.h"
#include "session/session.h"

namespace trireme {

// Folders that may hold checkpoints of the run: its own folder, checkpoint.fallback_folder, then
// the folder in memory of a launched job.
std::vector<std::string> checkpoint_roots(const SessionOptions& options);

// True if this job has a checkpoint in the host's memory.
bool has_memory_checkpoint(const SessionOptions& options);

// Returns the folder of the checkpoint to resume from, or "" for a fresh start.
Result<std::string> find_resume_folder(const SessionOptions& options);

// Makes all ranks resume from the same intact checkpoint. A tensor that was damaged on disk is
// noticed only when it is read, so with ResumeMode::Auto rank 0 reads the whole checkpoint and
// falls back on the one before it if necessary. All ranks call it before anything is restored.
Result<std::string> agree_on_intact(World& world, const SessionOptions& options,
                                    const std::string& folder);

}  // namespace trireme
