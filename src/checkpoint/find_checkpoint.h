#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/load.h"

namespace trireme {

// Opens the checkpoint in a folder of its own, or the newest intact one of a run directory.
Result<Checkpoint> find_checkpoint(const std::string& path);

}  // namespace trireme
