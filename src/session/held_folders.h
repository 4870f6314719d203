#pragma once

#include <string>
#include <vector>

#include "agent/run_right.h"
#include "base/file_lock.h"
#include "session/session.h"

// The folders of a run, which one process holds against other runs.
namespace trireme {

// Refuses a folder that another process uses, and for a fresh run one that is not empty. A launcher
// asks before it starts the ranks.
Status check_run_folder(const std::string& folder, ResumeMode resume);

// Checks that the run directory is a folder or absent, and that of a fresh run unused.
Status check_out_dir(const SessionOptions& options);

// Returns the right of this rank to take part in its epoch.
RunRight run_right(const SessionOptions& options);

// Makes and locks the folders of the run. On several hosts, a host that is gone, or cut off, may
// hold them still. Then there are no locks, and the fence keeps its ranks from writing.
Result<std::vector<FileLock>> hold_unless_gone(const SessionOptions& options);

// Removes files that killed runs have left in the folders that this process holds.
void sweep_folders(const SessionOptions& options);

}  // namespace trireme
