#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "comm/world.h"
#include "session/session.h"

namespace trireme {

// Where checkpoints of the run may lie: in its folder, then in checkpoint.fallback_folder.
std::vector<std::string> checkpoint_roots(const SessionOptions& options);

// The folder of the checkpoint that a run goes on from; "": it starts afresh.
Result<std::string> find_resume_folder(const SessionOptions& options);

// A tensor that was damaged on the disk shows only when it is read: with ResumeMode::Auto rank 0
// reads the checkpoint, and falls back on the one before where it must. All ranks call it, before
// anything is restored, and go on from the same one.
Result<std::string> agree_on_intact(World& world, const SessionOptions& options,
                                    const std::string& folder);

}  // namespace trireme
