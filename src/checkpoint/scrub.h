#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"

namespace trireme {

// The findings of a scrub in one folder of a checkpoint.
struct ScrubbedFolder {
  std::string folder;
  int64_t step = -1;
  std::vector<std::string> damage;    // what was wrong: sentences with the file
  std::vector<std::string> repaired;  // files that are intact again
  std::vector<std::string> lost;      // why something cannot be repaired; empty: all is intact
};

struct ScrubOptions {
  int num_threads = 1;
  bool repairs = true;
  Progress* progress = nullptr;
};

// Reads every byte of all checkpoints in the folders and compares all checksums. A folder is a run
// directory, a checkpoint, or the folder in which a host keeps checkpoints in its memory. Parts of
// the same save, one of each host, are repaired from each other's parity: shards, parity pieces,
// the index and the record of the hosts. A repaired file replaces the damaged one only after its
// checksum was compared. Other checkpoints have no parity, so they are only verified.
Result<std::vector<ScrubbedFolder>> scrub(std::span<const std::string> folders,
                                          const ScrubOptions& options = {});

}  // namespace trireme
