#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

struct RetentionOptions {
  int64_t keep = 3;        // number of verified checkpoints to keep; 0: all
  int64_t keep_every = 0;  // also keeps checkpoints of multiples of this many steps; 0: none
};

struct DamagedCheckpoint {
  int64_t step = 0;
  std::string problem;
};

struct RetentionResult {
  std::vector<DamagedCheckpoint> damaged;
  std::vector<int64_t> verified;  // steps, newest first
  std::vector<int64_t> removed;
};

// Reads the checkpoints in `root` back, from `step` backwards, until `keep` of them are intact, and
// only then removes older ones. A damaged checkpoint does not count towards `keep`; it is removed
// like any other once it is older than those that are kept. Checkpoints of later steps, left by an
// earlier run that went further, are not touched. If nothing can be removed, only `step` is read
// back. `should_stop` stops it before anything more is removed.
RetentionResult apply_retention(const std::string& root, int64_t step,
                                const RetentionOptions& options,
                                const std::function<bool()>& should_stop = {});

}  // namespace trireme
