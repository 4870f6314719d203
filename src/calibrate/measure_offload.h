#pragma once

#include <string>

namespace trireme {

// Bytes per second that a file of memory.offload in this folder gives, read or written, hashes
// included. Takes about 0.1 s on a disk whose content stays in memory. Throws IoError, as the run
// itself would.
double measure_offload(const std::string& folder);

}  // namespace trireme
