#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "chaos/fault.h"

namespace trireme {

// Returns the newest committed checkpoint in a folder of checkpoints, or "" if there are fewer than
// `least` of them.
std::string newest_checkpoint(const std::string& root, int least);

// Changes one bit of a file of the folder; larger files are chosen more often. Returns which one:
// "weights.safetensors, bit 3 of byte 17".
Result<std::string> flip_bit(const std::string& folder, const PlannedFault& fault);

}  // namespace trireme
