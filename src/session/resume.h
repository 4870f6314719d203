#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "comm/world.h"
#include "session/memory_resume.h"
#include "session/session.h"
#include "train/engine.h"

namespace trireme {

// Folders on disk that may hold checkpoints of the run: its own folder, then
// checkpoint.fallback_folder.
std::vector<std::string> checkpoint_roots(const SessionOptions& options);

// Returns the folder of the checkpoint on disk to resume from, or "" for a fresh start.
Result<std::string> find_resume_folder(const SessionOptions& options);

// The state from which all ranks of a session start.
struct ResumePoint {
  std::string folder;  // of the checkpoint; "": a fresh start
  std::string name;    // as a user finds it
  // "memory", "parity" (lost parts were rebuilt), "disk", or "start" for a fresh start.
  std::string from = "start";
};

// Makes all ranks resume from the same checkpoint: the newest intact one of the hosts' memory and
// of the disk. What is damaged is noticed only when it is read, so the hosts read all that they
// have in memory, and with ResumeMode::Auto rank 0 reads a whole checkpoint on disk; if necessary,
// they fall back on the one before it. All ranks call it before anything is restored.
Result<ResumePoint> agree_on_resume(World& world, const SessionOptions& options,
                                    MemoryResume& memory);

}  // namespace trireme
