#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/load.h"

namespace trireme {

// A checkpoint by its own folder, or the newest good one of a run directory.
Result<Checkpoint> find_checkpoint(const std::string& path);

}  // namespace trireme
